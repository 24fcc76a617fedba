package charges

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
)

// What the benchmarks below are about: a usual request, as a caller sends it.
const benchBody = `{"amount":1099,"currency":"USD","payment_method":"pm_card_visa","reference":"order-4711","description":"Order 4711",
	"receipt_email":"buyer@example.com","statement_descriptor_suffix":"SHOP 4711","metadata":{"cart":"c-4711","customer":"ada","channel":"web"}}`

func benchRequest(b *testing.B) Request {
	b.Helper()
	r, err := DecodeRequest([]byte(benchBody))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchRequest(b)
	}
}

func BenchmarkValidate(b *testing.B) {
	r := benchRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	r := benchRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		Fingerprint(http.MethodPost, "/charge", r.Canonical())
	}
}

// What accepting a charge computes, the database aside, but for the answer.
func BenchmarkClaim(b *testing.B) {
	r := benchRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		if c := newClaim(CreateCharge{Caller: "shop", Key: uuid.Nil, Request: r}); c.err != nil {
			b.Fatal(c.err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	c := newClaim(CreateCharge{Caller: "shop", Key: uuid.New(), Request: benchRequest(b)}).charge
	c.CreatedAt = time.Now().UTC()
	c.UpdatedAt = c.CreatedAt
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(c); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading a stored charge back, as every look at one does.
func BenchmarkReadBack(b *testing.B) {
	canonical := string(benchRequest(b).Canonical())
	b.ReportAllocs()
	for b.Loop() {
		var r Request
		if err := json.Unmarshal([]byte(canonical), &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAllow(b *testing.B) {
	now := time.Now()
	here := Account{ID: "acct_home"}
	for name, n := range map[string]int{"no attempt": 0, "one": 1, "ten": 10} {
		b.Run(name, func(b *testing.B) {
			h := History{Accepted: now.Add(-time.Hour)}
			for i := range n {
				at := now.Add(time.Duration(i-n) * time.Minute)
				h.Attempts = append(h.Attempts, Attempt{Number: i + 1, ProviderKey: "k", Account: here, Request: "r", SentAt: at, StripeSentAt: at, EndedAt: at, Outcome: Unknown})
			}
			b.ReportAllocs()
			for b.Loop() {
				if p := Allow(h, Clocks{Database: now, Stripe: now, Fresh: true}, here, DefaultPolicy); p.Action != Send {
					b.Fatal(p.Action)
				}
			}
		})
	}
}
