package charges

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	onePages   = 200    // what is about one charge; that of the catalog, which a session reads once, included
	pagePages  = 3000   // a page of a list: fifty charges with their receipts, payments, refunds and disputes
	batchPages = 20_000 // five hundred charges, or rows that are removed; such a batch may find a table small enough to read it all
)

// waitingPages is for what reads all that waits, a tenth of the charges here.
var waitingPages = int(*sizeRows)

var sizeOps = []sizeOp{
	{"accept", onePages, "Create", func(t *testing.T, s *sized) { s.accept(t, 1) }},
	{"accept a hundred", 4000, "Create", func(t *testing.T, s *sized) { s.accept(t, 100) }},
	{"accept again", onePages, "Create Key Get", func(t *testing.T, s *sized) {
		first := CreateCharge{Caller: "shop-3", Key: uuid.New(), Request: request(func(r *Request) { r.Reference = uuid.NewString() })}
		for i, status := range []int{202, 202, 200} { // new, stored, and expired
			if i == 2 {
				s.exec(t, `DELETE FROM idempotency_key WHERE key = $1`, first.Key)
			}
			if a := s.Create(t.Context(), first); a.Err != nil || a.Status != status {
				t.Fatalf("%d: %+v", status, a)
			}
			must[KeyUse](t)(s.Key(t.Context(), "shop-3", first.Key))
		}
		first.Key = uuid.New()
		if other := s.Create(t.Context(), first); other.Err == nil {
			t.Fatal("a reference was taken twice")
		}
	}},
	{"late", onePages, "Create", func(t *testing.T, s *sized) {
		yesterday := time.Now().Add(-24 * time.Hour)
		a := s.Create(t.Context(), CreateCharge{Caller: "shop-1", Key: uuid.New(), Request: request(func(r *Request) { r.SendBefore = &yesterday })})
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
					if !status.Waiting() && status != Succeeded {
						s.list(t, caller, ListFilter{Status: status, After: after, Limit: 50})
					}
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
	// What waits has one index, for all callers and both statuses, and charges that have succeeded none of their own: a page costs no more than all
	// that waits.
	{"list what waits", waitingPages, "List", func(t *testing.T, s *sized) {
		for _, caller := range []string{"shop-3", ""} {
			for _, status := range []Status{Pending, Processing, Succeeded} {
				s.list(t, caller, ListFilter{Status: status, Limit: 50})
			}
		}
	}},
	{"review", pagePages, "Reviews Evidence Rule", func(t *testing.T, s *sized) {
		if list, _, err := s.Reviews(t.Context(), 50); err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		id := s.pick(t, NeedsReview)
		must[Evidence](t)(s.Evidence(t.Context(), id))
		if _, err := s.Rule(t.Context(), id, Ruling{As: Succeeded, Payment: "pi_" + uuid.NewString()[:8], Because: "seen", Actor: "operator:ada"}); err != nil {
			t.Fatal(err)
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
		s.decline(t, s.pick(t, Pending))
	}},
	{"look", onePages, "Looked TakeReading SaveReading DropReading", func(t *testing.T, s *sized) {
		s.exec(t, `DELETE FROM reading_payment; DELETE FROM reading`)
		b := s.begin(t, s.pickOldest(t, Pending), s.here())
		if b.Action != LookFirst {
			t.Fatalf("begin: %+v", b.Permit)
		}
		hold, turn, err := s.TakeReading(t.Context(), b)
		if err != nil || turn != ReadOn {
			t.Fatal(turn, err)
		}
		other := paidNow(b.Charge)
		other.Key = uuid.NewString()
		if err := s.SaveReading(t.Context(), &hold, []News{other}, true, nil); err != nil {
			t.Fatal(err)
		}
		b = s.begin(t, b.Charge.ID, s.here())
		if b.Action != Send || len(b.Looks) != 1 {
			t.Fatalf("begin: %+v", b.Permit)
		}
		if err := s.Looked(t.Context(), b.Charge.ID, b.Permit, b.Here, Look{Seen: 1, Error: "cut short"}, nil); err != nil {
			t.Fatal(err)
		}
		s.exec(t, `DELETE FROM reading_payment; DELETE FROM reading`)
		b = s.begin(t, s.pickOldest(t, Pending), s.here())
		hold, _, err = s.TakeReading(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.DropReading(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
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
	{"webhooks that wait", 1000, "ApplyPending EventBacklog", func(t *testing.T, s *sized) {
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
	{"remove", batchPages, "ExpireKeys RemoveEvents RemoveReadings RemoveAttempts", func(t *testing.T, s *sized) {
		s.vacuum(t)
		removed := must[int64](t)(s.ExpireKeys(t.Context()))
		removed += must[int64](t)(s.RemoveEvents(t.Context(), 29*24*time.Hour))
		removed += must[int64](t)(s.RemoveReadings(t.Context()))
		removed += must[int64](t)(s.RemoveAttempts(t.Context(), 29*24*time.Hour))
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
	{"restored", onePages, "DeclareRestored Restorations Blind Queued Unread BeginLost LostPayments CountLost GiveUpLost", func(t *testing.T, s *sized) {
		must[Restoration](t)(s.DeclareRestored(t.Context(), time.Now().Add(-time.Hour), "operator:ada", "a test"))
		if unread, _, err := s.Unread(t.Context()); err != nil || len(unread) != 1 {
			t.Fatal(unread, err)
		}
		hold, turn, err := s.TakeReading(t.Context(), must[Begun](t)(s.BeginLost(t.Context(), s.here())))
		if err != nil || turn != ReadOn {
			t.Fatal(turn, err)
		}
		lost := uuid.New()
		if err := s.SaveReading(t.Context(), &hold, []News{{Payment: Payment{ID: "pi_lost", Key: lost.String()}}}, true, nil); err != nil {
			t.Fatal(err)
		}
		if begun := must[Begun](t)(s.BeginLost(t.Context(), s.here())); begun.Action != Nothing || must[int64](t)(s.CountLost(t.Context())) != 1 {
			t.Errorf("%+v", begun.Permit)
		}
		if must[int64](t)(s.GiveUpLost(t.Context(), "operator:ada", "a test")) != 1 {
			t.Error("there is nothing to give up")
		}
		if found := must[[]LostPayment](t)(s.LostPayments(t.Context(), 10)); len(found) != 1 {
			t.Errorf("%+v", found)
		}
		if a := s.Create(t.Context(), CreateCharge{Caller: "shop", Key: lost, Request: selling(one("none"))}); a.Err != nil {
			t.Error(a.Err)
		}
		must[[]Restoration](t)(s.Restorations(t.Context()))
		if s.Blind() {
			t.Error("restores are not seen")
		}
		s.exec(t, `DELETE FROM restoration`)
	}},
	{"figures", waitingPages, "Backlog ReceiptBacklog outbox.QueueDepths outbox.UnknownKinds", func(t *testing.T, s *sized) {
		must[[]Backlog](t)(s.Backlog(t.Context()))
		must[map[ReceiptStatus]int64](t)(s.ReceiptBacklog(t.Context()))
		must[map[string]int64](t)(s.box.QueueDepths(t.Context()))
		must[map[string]int64](t)(s.box.UnknownKinds(t.Context()))
	}},
	{"outbox", batchPages, "Unfinished CountSettled outbox.Sweep outbox.List outbox.Preview outbox.Replay outbox.ReplayAt", func(t *testing.T, s *sized) {
		if _, _, err := s.box.List(t.Context(), s, outbox.Filter{}, uuid.Nil, 50); err != nil {
			t.Fatal(err)
		}
		must[outbox.Report](t)(s.box.Sweep(t.Context(), s))
		must[outbox.Report](t)(s.box.Preview(t.Context(), s, outbox.Filter{ChargeIDs: []uuid.UUID{s.pick(t, Pending)}}))
	}},
	// Two thousand jobs, and now and then the list of what River's GIN indexes have not taken in yet: whoever fills that empties it.
	{"backlog", 10 * batchPages, "outbox.MoveOverdue", func(t *testing.T, s *sized) {
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
	{"replay", batchPages, "outbox.Replay outbox.ReplayAt", func(t *testing.T, s *sized) {
		s.exec(t, `DELETE FROM river_job WHERE id IN (SELECT id FROM river_job WHERE state = 'available' ORDER BY id DESC LIMIT 1000)`)
		r := must[outbox.Report](t)(s.box.ReplayAt(t.Context(), s, outbox.Filter{}, "operator:ada", 1e6, nil))
		if r.Enqueued < 900 {
			t.Errorf("%d jobs", r.Enqueued)
		}
		must[outbox.Report](t)(s.box.Replay(t.Context(), s, outbox.Filter{Caller: "nobody"}, "operator:ada", nil))
	}},
	// Last, since it pauses.
	{"outage", 4 * batchPages, "outbox.ProviderFailed outbox.Reconcile outbox.StartTrial outbox.TrialFailed outbox.TrialCallEnded " +
		"outbox.ProviderSucceeded outbox.PauseProvider outbox.ResumeProvider outbox.Health outbox.Lease outbox.SlowDown", func(t *testing.T, s *sized) {
		ctx := t.Context()
		_, _, err := s.box.ProviderFailed(ctx, outbox.Stripe, outbox.Down, "away", true, false)
		_, _, _, err2 := s.box.Reconcile(ctx, outbox.Stripe)
		_, _, err3 := s.box.StartTrial(ctx, outbox.Stripe)
		_, _, err4 := s.box.TrialFailed(ctx, outbox.Stripe, outbox.Down, "away")
		err5 := s.box.TrialCallEnded(ctx, outbox.Stripe, time.Now())
		_, _, err6 := s.box.ProviderSucceeded(ctx, outbox.Stripe)
		_, err7 := s.box.PauseProvider(ctx, outbox.SendGrid, "operator:ada", "a test")
		_, _, err8 := s.box.ResumeProvider(ctx, outbox.SendGrid, "operator:ada", "a test")
		_, err9 := s.box.Lease(ctx, outbox.SendGrid, outbox.Fresh, 1, 25)
		_, err10 := s.box.SlowDown(ctx, outbox.SendGrid, 25, 0)
		_, err11 := s.box.Health(ctx, outbox.Stripe)
		if err := errors.Join(err, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11); err != nil {
			t.Fatal(err)
		}
	}},
}

// A method that is new is to be explained.
func TestEveryMethodIsExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, op := range slices.Concat(itemOps, sizeOps) {
		for _, name := range strings.Fields(op.methods) {
			explained[name] = true
		}
	}
	for prefix, typ := range map[string]reflect.Type{"": reflect.TypeFor[*Service](), "outbox.": reflect.TypeFor[*outbox.Outbox]()} {
		for i := range typ.NumMethod() {
			if name := prefix + typ.Method(i).Name; !explained[name] {
				t.Errorf("no operation runs %s on a large database", name)
			}
		}
	}
}

// vacuum does what autovacuum does.
func (s *sized) vacuum(t *testing.T) {
	t.Helper()
	for _, table := range []string{"idempotency_key", "webhook_event", "river_job"} {
		s.exec(t, `VACUUM ANALYZE `+table)
	}
}

func (s *sized) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (s *sized) accept(t *testing.T, n int, items ...Item) {
	t.Helper()
	claims := make([]*claim, n)
	for i := range claims {
		claims[i] = newClaim(CreateCharge{Caller: "shop-3", Key: uuid.New(), Request: request(func(r *Request) { r.Reference, r.Items = uuid.NewString(), items })})
	}
	s.acceptAll(t, claims)
	for _, c := range claims {
		if c.answer.Err != nil {
			t.Fatal(c.answer.Err)
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

func (s *sized) decline(t *testing.T, id uuid.UUID) {
	t.Helper()
	b := s.begin(t, id, s.here())
	must[bool](t)(s.Settle(t.Context(), b.Attempt, Result{Outcome: Answered, Change: Change{To: Failed, Failure: &Failure{Code: "card_declined", Advice: NewPaymentMethod}}}))
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
