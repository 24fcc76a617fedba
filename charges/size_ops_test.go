package charges

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// sizeOp is an operation, and how many pages of 8 kB each of its statements may touch at most. An index of a table of any size is some four pages
// deep, so that to write a charge, with its entries in seven indexes, is some thirty.
type sizeOp struct {
	name    string
	bound   int
	methods string // of Service and, as outbox.X, of the outbox, that it runs
	run     func(t *testing.T, s *sized)
}

const (
	onePages  = 100  // what is about one charge
	pagePages = 1500 // a page of a list: fifty charges with their receipts, payments, refunds and disputes
)

var sizeOps = []sizeOp{
	{"accept", onePages, "Create", func(t *testing.T, s *sized) { s.accept(t, 1) }},
	{"accept a hundred", 40 * onePages, "Create", func(t *testing.T, s *sized) { s.accept(t, 100) }},
	{"accept again", onePages, "Create Key Get", func(t *testing.T, s *sized) {
		for _, status := range []Status{Pending, Succeeded} { // the answer is stored, and has expired
			c := must[Charge](t)(s.Get(t.Context(), "", s.pick(t, status)))
			again := s.Create(t.Context(), []CreateCharge{{Caller: c.Caller, Key: c.IdempotencyKey, Request: c.Request}})[0]
			if again.Err != nil || !again.Replayed || again.ChargeID != c.ID {
				t.Fatalf("again: %+v", again)
			}
			must[KeyUse](t)(s.Key(t.Context(), c.Caller, c.IdempotencyKey))
			if other := s.Create(t.Context(), []CreateCharge{{Caller: c.Caller, Key: uuid.New(), Request: c.Request}})[0]; other.Err == nil {
				t.Fatal("a reference was taken twice")
			}
		}
	}},
	{"late", onePages, "Create", func(t *testing.T, s *sized) {
		yesterday := time.Now().Add(-24 * time.Hour)
		a := s.Create(t.Context(), []CreateCharge{{Caller: "shop-1", Key: uuid.New(), Request: request(func(r *Request) { r.SendBefore = &yesterday })}})[0]
		if a.Err == nil {
			t.Fatal("it was in time")
		}
	}},
	{"authenticate", onePages, "CreateToken AddToken Authenticate Tokens RevokeToken", func(t *testing.T, s *sized) {
		secret := must[string](t)(s.CreateToken(t.Context(), "shop-1", Caller))
		token := must[Token](t)(s.Authenticate(t.Context(), secret))
		must[[]Token](t)(s.Tokens(t.Context()))
		if err := s.RevokeToken(t.Context(), token.ID); err != nil {
			t.Fatal(err)
		}
	}},
	{"wait", onePages, "Wait Get", func(t *testing.T, s *sized) {
		must[Charge](t)(s.Wait(t.Context(), "", s.pick(t, Succeeded)))
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		must[Charge](t)(s.Wait(ctx, "", s.pick(t, Pending)))
	}},
	{"list", pagePages, "List Events", func(t *testing.T, s *sized) {
		deep := s.pick(t, Succeeded)
		for _, caller := range []string{"shop-3", ""} {
			for _, after := range []uuid.UUID{{}, deep} {
				for _, status := range append([]Status{""}, Statuses...) {
					s.list(t, caller, ListFilter{Status: status, After: after, Limit: 50})
				}
			}
		}
		c := must[Charge](t)(s.Get(t.Context(), "", s.pick(t, Failed)))
		for _, caller := range []string{c.Caller, ""} {
			if page := s.list(t, caller, ListFilter{Reference: c.Reference, Limit: 50}); caller != "" && len(page) != 1 {
				t.Errorf("%d charges with the reference", len(page))
			}
		}
		if _, _, err := s.Events(t.Context(), c.Caller, c.ID, 0, 50); err != nil {
			t.Fatal(err)
		}
	}},
	{"review", pagePages, "Reviews Evidence Rule", func(t *testing.T, s *sized) {
		if list, _, err := s.Reviews(t.Context(), 50); err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		id := s.pick(t, NeedsReview)
		must[Evidence](t)(s.Evidence(t.Context(), id))
		if _, err := s.Rule(t.Context(), id, Ruling{As: Succeeded, Payment: "pi_" + uuid.NewString(), Because: "seen", Actor: "operator:ada"}); err != nil {
			t.Log(err)
		}
	}},
	{"pay", onePages, "Begin Settle ClaimReceipt SettleReceipt ConfirmIdentity outbox.Enqueue", func(t *testing.T, s *sized) {
		id := s.pick(t, Pending)
		must[*Restoration](t)(s.ConfirmIdentity(t.Context()))
		s.pay(t, id)
		claim := must[ReceiptClaim](t)(s.ClaimReceipt(t.Context(), id))
		must[time.Duration](t)(s.SettleReceipt(t.Context(), id, claim.ID, ReceiptResult{Status: ReceiptSent, MessageID: "m"}))
	}},
	{"decline", onePages, "Begin Settle", func(t *testing.T, s *sized) {
		b := s.begin(t, s.pick(t, Pending), s.here())
		must[bool](t)(s.Settle(t.Context(), b.Attempt, Result{Outcome: Answered, Change: Change{To: Failed, Failure: &Failure{Code: "card_declined", Advice: NewPaymentMethod}}}))
	}},
	{"look", onePages, "Looked TakeReading SaveReading DropReading RemoveReadings", func(t *testing.T, s *sized) {
		b := s.begin(t, s.pick(t, Pending), s.here())
		must[bool](t)(s.Settle(t.Context(), b.Attempt, Result{Outcome: Unknown}))
		later := s.here()
		later.Clock = later.Clock.Add(24 * time.Hour)
		b = s.begin(t, b.Charge.ID, later)
		t.Log(b.Action)
	}},
	{"follow", onePages, "Follow Payments Hear BeginCancel SettleCancel", func(t *testing.T, s *sized) {
		id := s.pick(t, RequiresAction)
		f := must[Following](t)(s.Follow(t.Context(), id))
		must[Following](t)(s.Payments(t.Context(), id))
		a, due, err := s.BeginCancel(t.Context(), id, s.here(), time.Minute)
		if err != nil || !due {
			t.Fatal(due, err)
		}
		if err := s.SettleCancel(t.Context(), a, Result{Outcome: Unknown}); err != nil {
			t.Fatal(err)
		}
		must[Note](t)(s.Hear(t.Context(), id, s.here().Account, paidNow(f.Charge)))
	}},
	{"refunds", onePages, "HearRefunds RefundsRead", func(t *testing.T, s *sized) {
		c := must[Charge](t)(s.Get(t.Context(), "", s.pick(t, Succeeded)))
		refunds := []RefundNews{{ID: "re_" + uuid.NewString()[:8], Payment: *c.PaymentIntent, Amount: 10, Currency: "usd", Status: "succeeded", AsOf: time.Now()}}
		must[[]EventNote](t)(s.HearRefunds(t.Context(), c.ID, refunds, nil))
		if err := s.RefundsRead(t.Context(), c.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}},
	{"webhook", onePages, "TakeStripeEvent TakeReceiptEvents", func(t *testing.T, s *sized) {
		c := must[Charge](t)(s.Get(t.Context(), "", s.pick(t, RequiresAction)))
		s.event(t, c, *c.PaymentIntent, EventApplied)
		s.event(t, must[Charge](t)(s.Get(t.Context(), "", s.pick(t, Pending))), "pi_new"+uuid.NewString()[:8], EventPending)
		batch := fmt.Sprintf(`[{"sg_event_id":%q,"event":"bounce","timestamp":1793000000,"oncepay_key":%q,"oncepay_charge":%q}]`, uuid.NewString(), c.IdempotencyKey, c.ID)
		must[[]ProviderEvent](t)(s.TakeReceiptEvents(t.Context(), []byte(batch)))
	}},
	{"webhooks that wait", 5 * onePages, "ApplyPending EventBacklog", func(t *testing.T, s *sized) {
		must[[]ProviderEvent](t)(s.ApplyPending(t.Context()))
		if _, _, err := s.EventBacklog(t.Context()); err != nil {
			t.Fatal(err)
		}
	}},
	{"webhooks by hand", pagePages, "ProviderEvents ProviderEvent RetryEvents", func(t *testing.T, s *sized) {
		list, _, err := s.ProviderEvents(t.Context(), EventFilter{Limit: 50})
		if err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		must[ProviderEvent](t)(s.ProviderEvent(t.Context(), list[0].ID))
		must[int64](t)(s.RetryEvents(t.Context(), []int64{list[0].ID}))
	}},
	{"remove", removeBatch * 20, "ExpireKeys RemoveEvents RemoveReadings", func(t *testing.T, s *sized) {
		removed := must[int64](t)(s.ExpireKeys(t.Context()))
		removed += must[int64](t)(s.RemoveEvents(t.Context(), 29*24*time.Hour))
		removed += must[int64](t)(s.RemoveReadings(t.Context()))
		t.Log(removed)
	}},
	{"receipts by hand", pagePages, "UnknownReceipts RuleReceipt ResendUnknown", func(t *testing.T, s *sized) {
		list, _, err := s.UnknownReceipts(t.Context(), outbox.Filter{}, uuid.Nil, 50)
		if err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		if err := s.RuleReceipt(t.Context(), list[0].ChargeID, ReceiptPending, "asked", "operator:ada"); err != nil {
			t.Fatal(err)
		}
	}},
	{"restored", onePages, "DeclareRestored Restorations Blind", func(t *testing.T, s *sized) {
		must[[]Restoration](t)(s.Restorations(t.Context()))
	}},
	{"figures", onePages, "Backlog ReceiptBacklog outbox.QueueDepths outbox.UnknownKinds", func(t *testing.T, s *sized) {
		must[[]Backlog](t)(s.Backlog(t.Context()))
		must[map[ReceiptStatus]int64](t)(s.ReceiptBacklog(t.Context()))
		must[map[string]int64](t)(s.box.QueueDepths(t.Context()))
		must[map[string]int64](t)(s.box.UnknownKinds(t.Context()))
	}},
	{"outbox", 20 * 500, "Unfinished CountSettled outbox.Sweep outbox.List outbox.Preview outbox.Replay outbox.ReplayAt", func(t *testing.T, s *sized) {
		if _, _, err := s.box.List(t.Context(), s, outbox.Filter{}, uuid.Nil, 50); err != nil {
			t.Fatal(err)
		}
		must[outbox.Report](t)(s.box.Sweep(t.Context(), s))
		must[outbox.Report](t)(s.box.Preview(t.Context(), s, outbox.Filter{ChargeIDs: []uuid.UUID{s.pick(t, Pending)}}))
	}},
	{"backlog", 40 * 2000, "outbox.MoveOverdue", func(t *testing.T, s *sized) {
		must[int64](t)(s.box.MoveOverdue(t.Context()))
	}},
	{"hurry", onePages, "outbox.Hurry", func(t *testing.T, s *sized) {
		err := outbox.InTx(t.Context(), s.Service.pool, "test", func(tx pgx.Tx) error {
			return s.box.Hurry(t.Context(), tx, outbox.Entry{Kind: outbox.KindCharge, ChargeID: s.pick(t, Pending)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}},
}

func (s *sized) accept(t *testing.T, n int) {
	t.Helper()
	creates := make([]CreateCharge, n)
	for i := range creates {
		creates[i] = CreateCharge{Caller: "shop-3", Key: uuid.New(), Request: request(func(r *Request) { r.Reference = uuid.NewString() })}
	}
	for _, a := range s.Create(t.Context(), creates) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

func (s *sized) list(t *testing.T, caller string, f ListFilter) []Charge {
	t.Helper()
	page, _, err := s.List(t.Context(), caller, f)
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	return page
}

func (s *sized) here() Here {
	return Here{Account: Account{ID: "acct_home"}, Clock: time.Now(), Fresh: true,
		Encode: func(c Charge) (string, error) { return fmt.Sprintf("amount=%d", c.Amount), nil }}
}

func (s *sized) begin(t *testing.T, id uuid.UUID, here Here) Begun {
	t.Helper()
	return must[Begun](t)(s.Begin(t.Context(), id, here))
}

func (s *sized) pay(t *testing.T, id uuid.UUID) {
	t.Helper()
	b := s.begin(t, id, s.here())
	if b.Action != Send {
		t.Fatalf("begin: %+v", b.Permit)
	}
	n := paidNow(b.Charge)
	must[bool](t)(s.Settle(t.Context(), b.Attempt, Result{Outcome: Answered, HTTPStatus: 200, News: &n}))
}

// paidNow is Stripe's news that a charge's payment has succeeded.
func paidNow(c Charge) News {
	id := "pi_" + c.ID.String()
	if c.PaymentIntent != nil {
		id = *c.PaymentIntent
	}
	return News{AsOf: time.Now(), Payment: Payment{ID: id, Status: "succeeded", Amount: c.Amount, Currency: c.Currency, Received: c.Amount, Key: c.IdempotencyKey.String()}}
}

func (s *sized) event(t *testing.T, c Charge, payment string, want EventStatus) {
	t.Helper()
	object := map[string]any{"id": payment, "object": "payment_intent", "amount": c.Amount, "currency": c.Currency, "livemode": false, "status": "succeeded",
		"amount_received": c.Amount, "metadata": map[string]any{"oncepay_key": c.IdempotencyKey, "oncepay_charge": c.ID}}
	raw, err := json.Marshal(map[string]any{"id": "evt_" + uuid.NewString(), "object": "event", "api_version": stripeVersion, "type": "payment_intent.succeeded",
		"created": time.Now().Unix(), "livemode": false, "data": map[string]any{"object": object}})
	if err != nil {
		t.Fatal(err)
	}
	if e := must[ProviderEvent](t)(s.TakeStripeEvent(t.Context(), raw)); e.Status != want {
		t.Errorf("the event is %s %s, want %s", e.Status, e.Note, want)
	}
}
