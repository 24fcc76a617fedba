package charges

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// fixture is a service on a database of its own, with Stripe's clock in the test's hand.
type fixture struct {
	*Service
	pool  *pgxpool.Pool
	box   *outbox.Outbox
	home  Account
	clock time.Time
}

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	pool := pgtest.New(t)
	box, err := outbox.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Service: New(pool, box, o), pool: pool, box: box, home: Account{ID: "acct_home"}, clock: time.Now()}
}

func (f *fixture) here(fresh bool) Here {
	return Here{Account: f.home, Clock: f.clock, Fresh: fresh,
		Encode: func(c Charge) (string, error) { return fmt.Sprintf("amount=%d&currency=%s", c.Amount, c.Currency), nil }}
}

func request(change ...func(*Request)) Request {
	r := Request{Amount: 1099, Currency: "usd", PaymentMethod: "pm_card_visa", CaptureMethod: CaptureAutomatic}
	for _, c := range change {
		c(&r)
	}
	return r
}

func (f *fixture) create(t *testing.T, r Request) uuid.UUID {
	t.Helper()
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: r})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.ChargeID
}

// begin asks what is allowed, and fails the test unless it is what is wanted.
func (f *fixture) begin(t *testing.T, id uuid.UUID, want Action) Begun {
	t.Helper()
	b, err := f.Begin(t.Context(), id, f.here(true))
	if err != nil {
		t.Fatal(err)
	}
	if b.Action != want {
		t.Fatalf("begin: %q, want %q (%+v)", b.Action, want, b.Permit)
	}
	return b
}

func (f *fixture) settle(t *testing.T, b Begun, r Result) {
	t.Helper()
	if _, err := f.Settle(t.Context(), b.Attempt, r); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := f.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (f *fixture) status(t *testing.T, id uuid.UUID) Status {
	t.Helper()
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil {
		t.Fatal(err)
	}
	return c.Status
}

// trail is the charge's statuses in the order of its events.
func (f *fixture) trail(t *testing.T, id uuid.UUID) []Status {
	t.Helper()
	events, _, err := f.Events(t.Context(), "shop", id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var trail []Status
	for _, e := range events {
		trail = append(trail, e.To)
	}
	return trail
}

// said is what Stripe says of a payment for [request], and answered the result of an attempt that it said so to.
func said(status, payment string) News {
	return News{Payment: Payment{ID: payment, Status: status, Amount: 1099, Currency: "usd"}, AsOf: time.Now().Truncate(time.Second)}
}

func answered(status, payment string) Result {
	news := said(status, payment)
	return Result{Outcome: Answered, HTTPStatus: 200, News: &news}
}

func declined(payment string) Result {
	r := answered("requires_payment_method", payment)
	r.News.Failure = &Failure{Code: "card_declined", Advice: RetryLater}
	return r
}

var paid = answered("succeeded", "pi_1")

// acceptAll has claims accepted or answered together, in one round.
func (s *Service) acceptAll(t *testing.T, claims []*claim) {
	t.Helper()
	var fresh, known []*claim
	for _, c := range claims {
		if c.err == nil {
			fresh = append(fresh, c)
		}
	}
	if err := s.accept(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if c.err != nil || c.taken {
			known = append(known, c)
		}
	}
	if err := s.findUses(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	for _, c := range known {
		c.answer, c.again = s.answerTaken(t.Context(), c)
	}
}

// createAll accepts charges in one batch, as if they had waited together.
func (f *fixture) createAll(t *testing.T, creates []CreateCharge) []Answer {
	t.Helper()
	claims := make([]*claim, len(creates))
	for i, c := range creates {
		claims[i] = newClaim(c)
	}
	f.acceptAll(t, claims)
	answers := make([]Answer, len(claims))
	for i, c := range claims {
		answers[i] = c.answer
	}
	return answers
}

// I1: a batch commits everything that each of its charges needs, and answers each for itself.
func TestCreateBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	known := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()}
	first := f.Create(t.Context(), known)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	referenced := f.create(t, request(func(r *Request) { r.Reference = "order-1" }))
	past := time.Now().Add(-time.Minute)
	twin := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()}
	answers := f.createAll(t, []CreateCharge{
		{Caller: "shop", Key: uuid.New(), Request: request()},
		known,
		{Caller: "shop", Key: known.Key, Request: request(func(r *Request) { r.Amount = 1 })},
		{Caller: "rival", Key: known.Key, Request: request(func(r *Request) { r.Amount = 1 })},
		{Caller: "shop", Key: uuid.New(), Request: request(func(r *Request) { r.Reference = "order-1" })},
		{Caller: "shop", Key: uuid.New(), Request: request(func(r *Request) { r.SendBefore = &past })},
		twin, twin,
	})
	if a := answers[0]; a.Err != nil || a.Status != http.StatusAccepted || a.Replayed {
		t.Errorf("new: %+v", a)
	}
	if a := answers[1]; a.Err != nil || !a.Replayed || string(a.Body) != string(first.Body) || a.Status != first.Status {
		t.Errorf("known: %+v, want the stored answer", a)
	}
	var reused *KeyReusedError
	if a := answers[2]; !errors.As(a.Err, &reused) || !slices.Equal(reused.Fields, []string{"amount"}) {
		t.Errorf("another request: %+v", a)
	}
	if a := answers[3]; !errors.As(a.Err, &reused) || len(reused.Fields) != 0 {
		t.Errorf("another caller: %+v", a)
	}
	var inUse *ReferenceInUseError
	if a := answers[4]; !errors.As(a.Err, &inUse) || inUse.ChargeID != referenced {
		t.Errorf("reference in use: %+v", a)
	}
	var invalid *InvalidError
	if a := answers[5]; !errors.As(a.Err, &invalid) {
		t.Errorf("send_before in the past: %+v", a)
	}
	if a, b := answers[6], answers[7]; a.Err != nil || b.Err != nil || a.ChargeID != b.ChargeID || a.Replayed == b.Replayed {
		t.Errorf("twins: %+v and %+v, want one charge", a, b)
	}
	const want = 4
	for _, sql := range []string{`SELECT count(*) FROM charge`, `SELECT count(*) FROM idempotency_key`,
		`SELECT count(*) FROM charge_event`, `SELECT count(*) FROM river_job WHERE kind = 'charge_send'`} {
		if n := f.count(t, sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}

// I4: a retry that comes after its send_before, while the first request is still in flight, gets the first one's answer and is not
// told that it is too late.
func TestCreateLateRetryOfOneInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	past := time.Now().Add(-time.Minute)
	late := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request(func(r *Request) { r.SendBefore = &past }).normalised()}
	first := newClaim(CreateCharge{Caller: late.Caller, Key: late.Key, Request: late.Request})

	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	accepted, _, err := insertCharges(t.Context(), tx, []*claim{first})
	if err != nil || len(accepted) != 1 {
		t.Fatal(err)
	}
	if err := insertKeys(t.Context(), tx, accepted, time.Hour); err != nil {
		t.Fatal(err)
	}
	answered := make(chan Answer, 1)
	go func() { answered <- f.Create(t.Context(), late) }()
	f.awaitLocks(t, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.Err != nil || !a.Replayed || a.ChargeID != first.charge.ID {
		t.Errorf("%+v", a)
	}
	var invalid *InvalidError
	late.Key = uuid.New()
	if a := f.Create(t.Context(), late); !errors.As(a.Err, &invalid) || f.count(t, `SELECT count(*) FROM charge`) != 1 {
		t.Errorf("a late request of its own: %+v", a)
	}
}

// I4: after its stored answer has expired, a key still makes no second charge.
func TestCreateAfterExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{KeyTTL: time.Hour})
	c := CreateCharge{Caller: "shop", Key: uuid.New(), Request: request()}
	first := f.Create(t.Context(), c)
	f.settle(t, f.begin(t, first.ChargeID, Send), paid)

	if _, err := f.pool.Exec(t.Context(), `UPDATE idempotency_key SET expires_at = now()`); err != nil {
		t.Fatal(err)
	}
	expired := f.Create(t.Context(), c) // expired, not yet removed
	if n, err := f.ExpireKeys(t.Context()); err != nil || n != 1 {
		t.Fatalf("expire: %d, %v", n, err)
	}
	removed := f.Create(t.Context(), c)
	for _, a := range []Answer{expired, removed} {
		if a.Err != nil || a.Status != http.StatusOK || a.ChargeID != first.ChargeID || !a.Expires.IsZero() || !a.Replayed {
			t.Errorf("after expiry: %+v", a)
		}
	}
	c.Request.Amount++
	var reused *KeyReusedError
	if a := f.Create(t.Context(), c); !errors.As(a.Err, &reused) {
		t.Errorf("another request after expiry: %+v", a)
	}
	if n := f.count(t, `SELECT count(*) FROM charge`); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	use, err := f.Key(t.Context(), "shop", c.Key)
	if err != nil || use.ExpiresAt != nil || use.Charge.Status != Succeeded {
		t.Errorf("key: %+v, %v", use, err)
	}
}

func TestExpireKeysInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	if _, err := f.pool.Exec(t.Context(), `INSERT INTO idempotency_key (key, caller, operation, charge_id, response_status, response_body, expires_at)
		SELECT gen_random_uuid(), 'shop', 'charge', $1, 202, '', now() - interval '1 minute' FROM generate_series(1, $2)`, id, 2*expireBatch+1); err != nil {
		t.Fatal(err)
	}
	n, err := f.ExpireKeys(t.Context())
	if err != nil || n != 2*expireBatch+1 {
		t.Errorf("removed %d, %v", n, err)
	}
	if left := f.count(t, `SELECT count(*) FROM idempotency_key`); left != 1 {
		t.Errorf("%d keys left, want the one that is not expired", left)
	}
}

// I4: a reference is free again once its charge can no longer succeed.
func TestReferenceFreedByFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	order := request(func(r *Request) { r.Reference = "order-7" })
	f.settle(t, f.begin(t, f.create(t, order), Send), Result{Outcome: Answered, Change: Change{To: Failed, Failure: &Failure{Code: "card_declined", Advice: NewPaymentMethod}}})
	second := f.create(t, order)
	f.settle(t, f.begin(t, second, Send), paid)
	a := f.Create(t.Context(), CreateCharge{Caller: "shop", Key: uuid.New(), Request: order})
	var inUse *ReferenceInUseError
	if !errors.As(a.Err, &inUse) || inUse.Charge.Status != Succeeded {
		t.Errorf("a paid order was accepted again: %+v", a)
	}
	if a := f.Create(t.Context(), CreateCharge{Caller: "rival", Key: uuid.New(), Request: order}); a.Err != nil {
		t.Errorf("another caller's reference is its own: %v", a.Err)
	}
}

// I7: a charge goes along the table, with an event for each step, and its receipt falls due with its success.
func TestSettle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request(func(r *Request) { r.ReceiptEmail = "buyer@example.com" }))
	b := f.begin(t, id, Send)
	if b.Attempt.ProviderKey != b.Charge.IdempotencyKey.String() || b.Attempt.Number != 1 || b.Attempt.Request != "amount=1099&currency=usd" {
		t.Errorf("attempt: %+v", b.Attempt)
	}
	if again := f.begin(t, id, WaitFor); again.Wait <= 0 || again.Wait > inCall {
		t.Errorf("a second worker may send after %v", again.Wait)
	}
	f.settle(t, b, paid)
	f.settle(t, b, paid)
	f.begin(t, id, Nothing)
	if got, want := f.trail(t, id), []Status{Pending, Processing, Succeeded}; !slices.Equal(got, want) {
		t.Errorf("trail %v, want %v", got, want)
	}
	if n := f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt_send'`); n != 1 {
		t.Errorf("%d receipt jobs, want 1", n)
	}
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil || c.PaymentIntent == nil || *c.PaymentIntent != "pi_1" || c.Receipt == nil || c.Receipt.Status != ReceiptPending {
		t.Errorf("charge: %+v, %v", c, err)
	}
}

// Every result that may follow an attempt leads to its status, and says what may be done next.
func TestSettleOutcomes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for _, tc := range []struct {
		result Result
		want   Status
		next   Action
	}{
		{Result{Outcome: Unknown}, Processing, Send},
		{Result{Outcome: NotSent}, Processing, Send},
		{Result{Outcome: Refused, Code: "rate_limit"}, Processing, Send},
		{Result{Outcome: StoredFailure}, Processing, LookFirst},
		{answered("processing", "pi_processing"), Processing, Nothing},
		{answered("requires_action", "pi_action"), RequiresAction, Nothing},
		{answered("requires_capture", "pi_capture"), RequiresCapture, Nothing},
		{declined("pi_declined"), Failed, Nothing},
		{answered("requires_confirmation", "pi_mute"), NeedsReview, Nothing},
		{answered("frozen", "pi_frozen"), NeedsReview, Nothing},
		{answered("canceled", "pi_canceled"), Canceled, Nothing},
		{Result{Outcome: Refused, Code: "idempotency_error", Change: Change{To: NeedsReview, Reason: "idempotency_error"}}, NeedsReview, Nothing},
	} {
		id := f.create(t, request())
		f.settle(t, f.begin(t, id, Send), tc.result)
		if got := f.status(t, id); got != tc.want {
			t.Errorf("%s %s: status %s, want %s", tc.result.Outcome, tc.result.To, got, tc.want)
		}
		f.begin(t, id, tc.next)
	}
}

// I2: a re-send repeats key and bytes, whatever the present release would encode.
func TestResendRepeatsTheBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	first := f.begin(t, id, Send)
	f.settle(t, first, Result{Outcome: Unknown})
	here := f.here(true)
	here.Encode = func(Charge) (string, error) { return "a=newer&release=1", nil }
	second, err := f.Begin(t.Context(), id, here)
	if err != nil {
		t.Fatal(err)
	}
	if second.Attempt.Request != first.Attempt.Request || second.Attempt.ProviderKey != first.Attempt.ProviderKey || second.Attempt.Number != 2 {
		t.Errorf("second attempt %+v, first %+v", second.Attempt, first.Attempt)
	}
}

// I2: past the window nothing is sent before a complete look has found nothing, and what it finds is adopted.
func TestLookPastWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	begun := func() (uuid.UUID, Begun) {
		id := f.create(t, request())
		f.settle(t, f.begin(t, id, Send), Result{Outcome: Unknown})
		f.clock = f.clock.Add(25 * time.Hour)
		return id, f.begin(t, id, LookFirst)
	}

	id, b := begun()
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Error: "page 2 failed", Seen: 100}, nil); err != nil {
		t.Fatal(err)
	}
	b = f.begin(t, id, LookFirst) // a look that was cut short is no answer
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true, Seen: 250}, nil); err != nil {
		t.Fatal(err)
	}
	if b := f.begin(t, id, Send); b.Attempt.Number != 2 {
		t.Errorf("after an empty look: %+v", b.Attempt)
	}

	id, b = begun()
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true, Seen: 250, Found: []string{"pi_9"}}, []News{said("succeeded", "pi_9")}); err != nil {
		t.Fatal(err)
	}
	f.begin(t, id, Nothing)
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("adopted: %s", got)
	}

	id, b = begun()
	other := said("succeeded", "pi_10")
	other.Amount++
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true, Found: []string{"pi_10"}}, []News{other}); err != nil {
		t.Fatal(err)
	}
	if got := f.status(t, id); got != NeedsReview {
		t.Errorf("a payment that differs: %s", got)
	}
	if n := f.count(t, `SELECT count(*) FROM attempt WHERE charge_id = $1 AND outcome = 'unknown'`, id); n != 1 {
		t.Error("the doubt about the attempt was not kept")
	}
}

// I2: fifty workers on one charge, one attempt.
func TestBeginIsExclusive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	var mu sync.Mutex
	actions := map[Action]int{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			b, err := f.Begin(context.Background(), id, f.here(true))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			actions[b.Action]++
		})
	}
	wg.Wait()
	if actions[Send] != 1 || actions[WaitFor] != 49 {
		t.Errorf("%v, want one to send and 49 to wait", actions)
	}
}

// I2: another Stripe account's attempts are neither repeated nor looked up.
func TestAnotherAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), Result{Outcome: Unknown})
	f.home = Account{ID: "acct_other"}
	f.begin(t, id, Misconfigured)
	if n := f.count(t, `SELECT count(*) FROM attempt`); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// A charge that was not sent in time is canceled; one that may have been sent is not.
func TestSendBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	soon := time.Now().Add(time.Hour)
	late := func(id uuid.UUID) {
		t.Helper()
		passed := time.Now().Add(-time.Second).UTC()
		canonical := string(request(func(r *Request) { r.SendBefore = &passed }).Canonical())
		if _, err := f.pool.Exec(t.Context(), `UPDATE charge SET send_before = $2, request = $3 WHERE id = $1`, id, passed, canonical); err != nil {
			t.Fatal(err)
		}
	}
	timely := request(func(r *Request) { r.SendBefore = &soon })
	never, turnedAway, doubtful := f.create(t, timely), f.create(t, timely), f.create(t, timely)
	f.settle(t, f.begin(t, turnedAway, Send), Result{Outcome: NotSent})
	f.settle(t, f.begin(t, doubtful, Send), Result{Outcome: Unknown})
	for _, id := range []uuid.UUID{never, turnedAway, doubtful} {
		late(id)
	}
	f.begin(t, never, Nothing)
	f.begin(t, turnedAway, Nothing)
	f.begin(t, doubtful, Send)
	for id, want := range map[uuid.UUID]Status{never: Canceled, turnedAway: Canceled, doubtful: Processing} {
		if got := f.status(t, id); got != want {
			t.Errorf("status %s, want %s", got, want)
		}
	}
}

// I2: a refusal while another attempt is open, whoever made it and whenever, holds the charge until Stripe was looked at, and only
// a look that comes late enough makes it final.
func TestInvalidWhileAnotherIsOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Policy: Policy{Window: 23 * time.Hour, LookDelays: []time.Duration{0}}})
	invalid := Result{Outcome: Invalid, Code: "payment_method_detached",
		Change: Change{To: Failed, Failure: &Failure{Code: "payment_method_detached", Advice: DoNotRetry}}}
	aged := func(id uuid.UUID, by string) {
		t.Helper()
		if _, err := f.pool.Exec(t.Context(), `UPDATE attempt SET sent_at = sent_at - $2::interval, stripe_sent_at = stripe_sent_at - $2::interval WHERE charge_id = $1`, id, by); err != nil {
			t.Fatal(err)
		}
	}

	// The first worker is suspended in its call; the second takes over and dies in its own; then the first one's refusal arrives.
	id := f.create(t, request())
	first := f.begin(t, id, Send)
	aged(id, "61 seconds")
	f.begin(t, id, Send)
	if held, err := f.Settle(t.Context(), first.Attempt, invalid); err != nil || !held {
		t.Fatalf("held %v, %v", held, err)
	}
	if got := f.status(t, id); got != Processing {
		t.Fatalf("%s while another attempt is open", got)
	}
	aged(id, "61 seconds")
	b := f.begin(t, id, LookFirst)
	if b.Final {
		t.Fatal("a look at attempts of a minute ago proves nothing")
	}
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true}, nil); err != nil {
		t.Fatal(err)
	}
	f.begin(t, id, WaitFor)
	aged(id, "15 minutes")
	b = f.begin(t, id, LookFirst)
	if err := f.Looked(t.Context(), id, b.Permit, f.home, Look{Complete: true}, nil); err != nil {
		t.Fatal(err)
	}
	f.begin(t, id, Nothing)
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil || c.Status != Failed || c.Failure.Code != "payment_method_detached" {
		t.Errorf("%+v, %v", c, err)
	}

	alone := f.create(t, request())
	if held, err := f.Settle(t.Context(), f.begin(t, alone, Send).Attempt, invalid); err != nil || held || f.status(t, alone) != Failed {
		t.Errorf("with nothing else open: held %v, %v, %s", held, err, f.status(t, alone))
	}
}

// I2: a charge that has its payment is not sent again, whatever its attempts say.
func TestPaymentIsNotSentAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	b := f.begin(t, id, Send)
	if _, err := f.pool.Exec(t.Context(), `UPDATE attempt SET outcome = 'absent', ended_at = now()`); err != nil {
		t.Fatal(err)
	}
	f.settle(t, b, answered("processing", "pi_1"))
	f.begin(t, id, Nothing)
	if n := f.count(t, `SELECT count(*) FROM attempt WHERE outcome = 'answered'`); n != 1 {
		t.Error("Stripe's own answer did not reach the attempt")
	}
}

// I7: late success of a charge whose reference another charge carries by now is applied all the same.
func TestLateSuccessAfterItsReferenceWasFreed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	order := request(func(r *Request) { r.Reference = "order-9" })
	id := f.create(t, order)
	b := f.begin(t, id, Send)
	f.settle(t, b, declined("pi_1"))
	f.create(t, order)
	f.settle(t, b, paid)
	if got := f.status(t, id); got != Succeeded {
		t.Errorf("status %s", got)
	}
}

// Stripe's word that money moved outranks a final state of ours; a second payment never replaces the first, is never passed
// over, and only a person ends the review that it causes.
func TestLateNews(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	b := f.begin(t, id, Send)
	f.settle(t, b, declined("pi_late_1"))
	f.settle(t, b, answered("succeeded", "pi_late_1"))
	if c, err := f.Get(t.Context(), "shop", id); err != nil || c.Status != Succeeded || c.Failure != nil {
		t.Errorf("%+v, %v", c, err)
	}
	f.settle(t, b, answered("succeeded", "pi_late_2"))
	f.settle(t, b, answered("succeeded", "pi_late_1"))
	c, err := f.Get(t.Context(), "shop", id)
	if err != nil || c.Status != NeedsReview || c.Review.Reason != "duplicate_payment" || *c.PaymentIntent != "pi_late_1" {
		t.Errorf("%+v, %v", c, err)
	}
	if n := f.count(t, `SELECT count(*) FROM charge_event WHERE charge_id = $1 AND type = 'payment.ignored'`, id); n != 1 {
		t.Errorf("%d traces of what was not followed, want 1", n)
	}

	failed := f.create(t, request())
	b = f.begin(t, failed, Send)
	f.settle(t, b, declined("pi_late_3"))
	f.settle(t, b, answered("succeeded", "pi_late_4"))
	if c, err := f.Get(t.Context(), "shop", failed); err != nil || c.Status != NeedsReview || *c.PaymentIntent != "pi_late_3" {
		t.Errorf("money moved for a failed charge, and it is %+v, %v", c, err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	got := make(chan Charge, 20)
	for range cap(got) {
		go func() {
			c, err := f.Wait(t.Context(), "shop", id)
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
	}
	f.settle(t, f.begin(t, id, Send), paid)
	for range cap(got) {
		if c := <-got; c.Status != Succeeded {
			t.Errorf("status %s", c.Status)
		}
	}
	waiting := f.create(t, request())
	short, cancel := context.WithTimeout(t.Context(), 3*watchEvery)
	defer cancel()
	if c, err := f.Wait(short, "shop", waiting); err != nil || c.Status != Pending {
		t.Errorf("%+v, %v", c, err)
	}
}
