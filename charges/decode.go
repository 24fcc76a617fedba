package charges

import "slices"

// DecodeRequest reads the body of a create request: exactly one JSON object with known members. Member names match letter for
// letter. Nothing is guessed or repaired: a duplicate or unknown member, a value of another type, text that PostgreSQL cannot keep,
// bad UTF-8, a lone surrogate, a byte order mark and anything after the object are all refused.
//
// An optional member that is null counts as left out, since client libraries write an unset field that way; a required one
// must not be null. A member that is an empty string is refused: whether it meant "none" or was a mistake cannot be told.
//
// A refusal is an [*InvalidError] with all faults that could be found, those of [Request.Validate] included; broken JSON, more than
// 20 faults and too much metadata end the reading. A nil error says that the body was read, not that the request is valid: that is
// asked separately, so that a request which an earlier release accepted can still be compared with its stored answer.
func DecodeRequest(body []byte) (Request, error) {
	var r Request
	faults, complete := readMembers(body, []bodyMember{
		{"amount", true, readAmount(&r.Amount)},
		{"currency", true, readText(&r.Currency)},
		{"payment_method", true, readText(&r.PaymentMethod)},
		{"customer", false, readText(&r.Customer)},
		{"off_session", false, readBool(&r.OffSession)},
		{"setup_future_usage", false, readText(&r.SetupFutureUsage)},
		{"return_url", false, readText(&r.ReturnURL)},
		{"receipt_email", false, readText(&r.ReceiptEmail)},
		{"description", false, readText(&r.Description)},
		{"statement_descriptor_suffix", false, readText(&r.StatementDescriptorSuffix)},
		{"metadata", false, readMetadata(&r.Metadata)},
		{"capture_method", false, readText(&r.CaptureMethod)},
		{"reference", false, readText(&r.Reference)},
		{"items", false, readItems(&r.Items)},
		{"send_before", false, readTime(&r.SendBefore)},
	})
	r = r.normalised()
	if len(faults) == 0 {
		return r, nil
	}
	if complete {
		faults = addFaultsOfOtherFields(faults, r.faults())
	}
	return Request{}, &InvalidError{Fields: faults}
}

// DecodeStocking reads the body with which a SKU's quantity is set, {"quantity": 10, "previous": 5}, as strictly as [DecodeRequest] reads its own. A
// nil error says that it was read, not that such a quantity can be.
func DecodeStocking(body []byte) (st Stocking, err error) {
	var previous int64
	faults, _ := readMembers(body, []bodyMember{
		{"quantity", true, readCount(&st.Quantity)},
		{"previous", false, func(b *bodyReader, field string) error {
			st.Previous = &previous
			return readCount(&previous)(b, field)
		}},
	})
	if err := invalidOrNil(faults); err != nil {
		return Stocking{}, err
	}
	return st, nil
}

// addFaultsOfOtherFields keeps one story per field: a member that could not be read is not judged as well.
func addFaultsOfOtherFields(faults, more []FieldError) []FieldError {
	decoded := len(faults)
	for _, m := range more {
		if !slices.ContainsFunc(faults[:decoded], func(f FieldError) bool { return f.Field == m.Field }) {
			faults = append(faults, m)
		}
	}
	return faults
}
