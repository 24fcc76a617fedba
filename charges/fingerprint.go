package charges

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FingerprintVersion is kept with each fingerprint. Fingerprints of different versions cannot be compared; their canonical requests can.
const FingerprintVersion = 1

// canonicalTime has a fixed precision, PostgreSQL's.
const canonicalTime = "2006-01-02T15:04:05.000000Z"

// canonicalRequest has the members in their canonical order, which is that of their names.
type canonicalRequest struct {
	Amount                    int64             `json:"amount"`
	CaptureMethod             string            `json:"capture_method,omitzero"`
	Currency                  string            `json:"currency"`
	Customer                  string            `json:"customer,omitzero"`
	Description               string            `json:"description,omitzero"`
	Items                     []canonicalItem   `json:"items,omitzero"`
	Metadata                  map[string]string `json:"metadata,omitzero"`
	OffSession                bool              `json:"off_session,omitzero"`
	PaymentMethod             string            `json:"payment_method"`
	ReceiptEmail              string            `json:"receipt_email,omitzero"`
	Reference                 string            `json:"reference,omitzero"`
	ReturnURL                 string            `json:"return_url,omitzero"`
	SendBefore                string            `json:"send_before,omitzero"`
	SetupFutureUsage          string            `json:"setup_future_usage,omitzero"`
	StatementDescriptorSuffix string            `json:"statement_descriptor_suffix,omitzero"`
}

type canonicalItem struct {
	Quantity int64  `json:"quantity"`
	SKU      string `json:"sku"`
}

// Canonical writes the request in its one canonical form: JSON as RFC 8785 has it, without members that have their default.
// Two bodies that mean the same have the same canonical form, whatever release reads them: a member that a later release adds
// is absent from it until somebody uses it. [ParseCanonical] reads it back.
func (r Request) Canonical() []byte {
	r = r.normalised()
	c := canonicalRequest{
		Amount: r.Amount, Currency: r.Currency, Customer: r.Customer, Description: r.Description, Metadata: r.Metadata, OffSession: r.OffSession,
		PaymentMethod: r.PaymentMethod, ReceiptEmail: r.ReceiptEmail, Reference: r.Reference, ReturnURL: r.ReturnURL,
		SetupFutureUsage: r.SetupFutureUsage, StatementDescriptorSuffix: r.StatementDescriptorSuffix,
	}
	if r.CaptureMethod != CaptureAutomatic {
		c.CaptureMethod = r.CaptureMethod
	}
	for _, i := range sortedItems(r.Items) {
		c.Items = append(c.Items, canonicalItem{Quantity: i.Quantity, SKU: i.SKU})
	}
	if r.SendBefore != nil {
		c.SendBefore = r.SendBefore.Format(canonicalTime)
	}
	// A decoded request holds only valid text; the options keep a request made by hand from failing.
	anyText := json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	text, err := json.Marshal(c, anyText)
	if err == nil {
		err = (*jsontext.Value)(&text).Canonicalize(anyText, jsontext.CanonicalizeRawInts(false))
	}
	if err != nil {
		panic(fmt.Sprintf("charges: a request without a JSON form: %v", err)) // strings, numbers and maps of them always have one
	}
	return text
}

// ParseCanonical reads what [Request.Canonical] wrote, possibly by another release. A member that this release does not know is an
// error: it asks for something that we would leave undone when sending the charge. Rules of [Request.Validate] are not applied, since
// the charge was accepted under the rules of its day. The error is never an [*InvalidError].
func ParseCanonical(canonical []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(canonical, &r, json.RejectUnknownMembers(true)); err != nil {
		return Request{}, fmt.Errorf("read the stored request: %w", err)
	}
	return r.normalised(), nil
}

// Fingerprint identifies what a key was used for: the method, the path (without query) and the canonical request.
func Fingerprint(method, path string, canonical []byte) [sha256.Size]byte {
	hash := sha256.New()
	writePart := func(part []byte) {
		// Lengths keep the parts apart, wherever one ends.
		_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash never fails to write
		_, _ = hash.Write(part)
	}
	writePart([]byte{FingerprintVersion})
	writePart([]byte(method))
	writePart([]byte(path))
	writePart(canonical)
	return [sha256.Size]byte(hash.Sum(nil))
}

// DifferingFields names the members in which two canonical requests differ, in order, and metadata.<key> inside metadata. It tells no
// values. It is empty for equal requests, and for text that is no JSON object.
func DifferingFields(a, b []byte) []string {
	left, right := jsonMembers(a), jsonMembers(b)
	if left == nil || right == nil {
		return nil
	}
	var fields []string
	for _, name := range differingNames(left, right) {
		if name != "metadata" {
			fields = append(fields, memberLabel(name))
			continue
		}
		for _, key := range differingNames(jsonMembers(left[name]), jsonMembers(right[name])) {
			fields = append(fields, metadataField(key))
		}
	}
	return fields
}

// jsonMembers splits an object into its members' canonical texts; nil when text is no object.
func jsonMembers(text []byte) map[string]jsontext.Value {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return nil
	}
	for name, value := range members {
		if err := value.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			return nil
		}
		members[name] = value
	}
	return members
}

func differingNames(a, b map[string]jsontext.Value) []string {
	all := make(map[string]bool)
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	maps.DeleteFunc(all, func(name string, _ bool) bool { return bytes.Equal(a[name], b[name]) })
	return slices.Sorted(maps.Keys(all))
}
