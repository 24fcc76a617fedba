package stripetest_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"github.com/oncepay/oncepay/workers/sandbox"
)

func TestKeyReplaysForADayAndThenChargesAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.pay(t, "k-1")
	if err := s.sb.Advance(24*time.Hour - time.Minute); err != nil {
		t.Fatal(err)
	}
	again := s.pay(t, "k-1")
	if again.ID != first.ID || string(again.LastResponse.RawJSON) != string(first.LastResponse.RawJSON) {
		t.Fatalf("the replay differs:\n%s\n%s", first.LastResponse.RawJSON, again.LastResponse.RawJSON)
	}
	h := again.LastResponse.Header
	if h.Get("Idempotent-Replayed") != "true" || h.Get("Original-Request") != first.LastResponse.RequestID || h.Get("Request-Id") == first.LastResponse.RequestID {
		t.Fatalf("headers of the replay: %v", h)
	}
	if first.LastResponse.Header.Get("Idempotent-Replayed") != "" {
		t.Fatal("the first answer claims to be a replay")
	}
	s.wantPayments(t, 1)
	if err := s.sb.Advance(time.Minute); err != nil {
		t.Fatal(err)
	}
	if s.pay(t, "k-1").ID == first.ID {
		t.Fatal("the key is still remembered after 24 hours")
	}
	s.wantPayments(t, 2)
}

func TestKeyAnswersDeclineAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, err := s.PaymentIntents.New(payment("k-1", "pm_card_chargeDeclined"))
	first := refused(t, err, 402, stripe.ErrorCodeCardDeclined)
	_, err = s.PaymentIntents.New(payment("k-1", "pm_card_chargeDeclined"))
	second := refused(t, err, 402, stripe.ErrorCodeCardDeclined)
	if first.PaymentIntent.ID != second.PaymentIntent.ID || second.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("the decline was not replayed: %v", second.LastResponse.Header)
	}
	s.wantPayments(t, 1)
}

func TestKeyRefusesAnotherRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	pi := s.pay(t, "k-1")

	other := payment("k-1", "pm_card_visa")
	other.Amount = stripe.Int64(1100)
	_, err := s.PaymentIntents.New(other)
	if e := refused(t, err, 400, ""); e.Type != stripe.ErrorTypeIdempotency {
		t.Fatalf("other amount: type %q", e.Type)
	}
	cancel := &stripe.PaymentIntentCancelParams{}
	cancel.SetIdempotencyKey("k-1")
	_, err = s.PaymentIntents.Cancel(pi.ID, cancel)
	if e := refused(t, err, 400, ""); e.Type != stripe.ErrorTypeIdempotency {
		t.Fatalf("other path: type %q", e.Type)
	}
	s.pay(t, "k-1")
	s.wantPayments(t, 1)
}

func TestKeyRefusesTheSameParametersAtAnotherPath(t *testing.T) {
	t.Parallel()
	s := start(t)
	cancel := &stripe.PaymentIntentCancelParams{}
	cancel.SetIdempotencyKey("cancel-1")
	for i, method := range []string{"pm_card_threeDSecureRequired", "pm_card_authenticationRequired"} {
		pi, err := s.PaymentIntents.New(payment("k-"+method, method))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.PaymentIntents.Cancel(pi.ID, cancel)
		if i == 0 && err != nil {
			t.Fatal(err)
		}
		if i == 1 && refused(t, err, 400, "").Type != stripe.ErrorTypeIdempotency {
			t.Fatalf("another payment's cancel: %v", err)
		}
	}
}

func TestKeyIsNotStoredBeforeExecution(t *testing.T) {
	t.Parallel()
	for name, prevent := range map[string]func(*testing.T, shop){
		"bad parameter": func(t *testing.T, s shop) {
			p := payment("k-1", "pm_card_visa")
			p.Amount = stripe.Int64(1)
			_, err := s.PaymentIntents.New(p)
			refused(t, err, 400, stripe.ErrorCodeAmountTooSmall)
		},
		"bad secret key": func(t *testing.T, s shop) {
			_, err := s.as("sk_live").PaymentIntents.New(payment("k-1", "pm_card_visa"))
			refused(t, err, 401, "")
		},
		"rate limit": func(t *testing.T, s shop) {
			arm(t, s, sandbox.Fault{Kind: sandbox.Status, Status: 429, RetryAfter: 30})
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			if e := refused(t, err, 429, stripe.ErrorCodeRateLimit); e.LastResponse.Header.Get("Retry-After") != "30" {
				t.Fatalf("headers: %v", e.LastResponse.Header)
			}
		},
		"lock timeout": func(t *testing.T, s shop) {
			arm(t, s, sandbox.Fault{Kind: sandbox.Status, Status: 429, Code: "lock_timeout"})
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			refused(t, err, 429, stripe.ErrorCodeLockTimeout)
		},
		"unstored 500": func(t *testing.T, s shop) {
			arm(t, s, sandbox.Fault{Kind: sandbox.Status, Status: 500})
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			if e := refused(t, err, 500, ""); e.Type != stripe.ErrorTypeAPI {
				t.Fatalf("type %q", e.Type)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			prevent(t, s)
			s.wantPayments(t, 0)
			if pi := s.pay(t, "k-1"); pi.Status != stripe.PaymentIntentStatusSucceeded || pi.LastResponse.Header.Get("Idempotent-Replayed") != "" {
				t.Fatalf("the key was used up: %s", pi.Status)
			}
		})
	}
}

func TestStored500IsReplayed(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		s := start(t)
		arm(t, s, sandbox.Fault{Method: "POST", Path: "/v1/payment_intents", Kind: sandbox.StoredStatus, Status: 500, Done: done})
		if _, err := s.PaymentIntents.Get("pi_none", nil); err == nil {
			t.Fatal("a read used up the fault or found something")
		}
		for attempt := range 3 {
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			e := refused(t, err, 500, "")
			if replayed := e.LastResponse.Header.Get("Idempotent-Replayed") == "true"; replayed != (attempt > 0) {
				t.Fatalf("attempt %d: replayed is %t", attempt, replayed)
			}
		}
		s.wantPayments(t, map[bool]int{false: 0, true: 1}[done])
		s.pay(t, "k-2")
	}
}

func TestStored500PassesBadParametersBy(t *testing.T) {
	t.Parallel()
	s := start(t)
	arm(t, s, sandbox.Fault{Kind: sandbox.StoredStatus, Status: 500, Done: true})
	_, err := s.PaymentIntents.New(payment("k-1", "pm_nobody"))
	refused(t, err, 400, stripe.ErrorCodeResourceMissing)
	s.pay(t, "k-1")
}

func TestKeyInFlightIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	arm(t, s, sandbox.Fault{Kind: sandbox.Delay, DelayMS: 60_000, Times: 2})
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			results <- err
		}()
	}
	refused(t, <-results, 409, stripe.ErrorCodeIdempotencyKeyInUse) // while the other one is held
	s.pay(t, "k-2")                                                 // another key goes on
	s.as("sk_test_other").pay(t, "k-1")                             // another account, too
	s.as("sk_live_shop_x").pay(t, "k-1")                            // and the other mode
	if err := s.sb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-results; err == nil {
		t.Fatal("the held request was answered by a closed sandbox")
	}
	s.wantPayments(t, 3)
}

// A request that came while its key was known is a replay, however far the clock is moved before it is let go.
func TestKeyIsJudgedWhenTheRequestComes(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.pay(t, "k-1")
	arm(t, s, sandbox.Fault{Kind: sandbox.Delay, DelayMS: 2000})
	held := make(chan *stripe.PaymentIntent, 1)
	go func() {
		pi, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
		if err != nil {
			t.Errorf("the held request: %v", err)
		}
		held <- pi
	}()
	for len(s.sb.Ledger().Requests) < 2 {
		runtime.Gosched()
	}
	for { // until the held one has its key
		if _, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa")); err != nil {
			refused(t, err, 409, stripe.ErrorCodeIdempotencyKeyInUse)
			break
		}
	}
	if err := s.sb.Advance(25 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if pi := <-held; pi.ID != first.ID || pi.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s was paid, and then %s", first.ID, pi.ID)
	}
	s.wantPayments(t, 1)
	if s.pay(t, "k-1").ID == first.ID {
		t.Error("the key is still remembered after 25 hours")
	}
}

func TestConcurrentSendsUnderOneKeyMakeOnePayment(t *testing.T) {
	t.Parallel()
	s := start(t)
	const senders = 50
	results := make(chan error, senders)
	for range senders {
		go func() {
			_, err := s.PaymentIntents.New(payment("k-1", "pm_card_visa"))
			results <- err
		}()
	}
	answered := 0
	for range senders {
		if err := <-results; err != nil {
			refused(t, err, 409, stripe.ErrorCodeIdempotencyKeyInUse)
		} else {
			answered++
		}
	}
	if answered == 0 {
		t.Fatal("nobody got the payment")
	}
	s.wantPayments(t, 1)
}

func TestWriteWithoutKeyIsExecutedEachTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 2 {
		status, _ := post(t, s, "/v1/payment_intents", "amount=100&currency=usd")
		if status != http.StatusOK {
			t.Fatalf("got %d", status)
		}
	}
	s.wantPayments(t, 2)
	for _, r := range s.sb.Ledger().Requests {
		if r.IdempotencyKey != "" || r.Status != 200 || r.Account != "acct_shop" {
			t.Errorf("logged %+v", r)
		}
	}
}

func arm(t *testing.T, s shop, f sandbox.Fault) {
	t.Helper()
	if err := s.sb.Fail(f); err != nil {
		t.Fatal(err)
	}
}
