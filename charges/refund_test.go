package charges

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/oncepay/oncepay/outbox"
)

func stripeTime(n int64) time.Time { return time.Unix(1_700_000_000+n, 0).UTC() }

func refundAt(n int64, status, failure string) RefundNews {
	return RefundNews{ID: "re_1", Payment: "pi_1", Amount: 500, Currency: "usd", Status: status, FailureReason: failure, AsOf: stripeTime(n)}
}

// I7: whatever the order in which news of a refund come, it ends in one state.
func TestI7RefundNewsInEveryOrder(t *testing.T) {
	t.Parallel()
	days := int64(3 * 24 * 3600)
	for name, tc := range map[string]struct {
		news []RefundNews
		want RefundNews
	}{
		"a second for everything":                {[]RefundNews{refundAt(0, "pending", ""), refundAt(0, "requires_action", ""), refundAt(0, "succeeded", "")}, refundAt(0, "succeeded", "")},
		"waits for the buyer, then is under way": {[]RefundNews{refundAt(0, "requires_action", ""), refundAt(0, "pending", "")}, refundAt(0, "pending", "")},
		"back to the buyer, later":               {[]RefundNews{refundAt(0, "pending", ""), refundAt(1, "requires_action", "")}, refundAt(1, "requires_action", "")},
		"fails days later": {[]RefundNews{refundAt(0, "pending", ""), refundAt(5, "succeeded", ""), refundAt(5, "succeeded", ""), refundAt(days, "failed", "declined")},
			refundAt(days, "failed", "declined")},
		"fails in its second": {[]RefundNews{refundAt(0, "succeeded", ""), refundAt(0, "failed", "unknown"), refundAt(0, "pending", "")}, refundAt(0, "failed", "unknown")},
		"a list that was read as it failed": {[]RefundNews{refundAt(0, "pending", ""), refundAt(9, "failed", "declined"), refundAt(10, "succeeded", "")},
			refundAt(9, "failed", "declined")},
		"an end that is told twice":       {[]RefundNews{refundAt(9, "failed", ""), refundAt(9, "failed", "declined"), refundAt(9, "canceled", "")}, refundAt(9, "failed", "declined")},
		"a status that nobody knows":      {[]RefundNews{refundAt(0, "succeeded", ""), refundAt(1, "on_the_moon", ""), refundAt(0, "on_mars", "")}, refundAt(1, "on_the_moon", "")},
		"two that nobody knows, at once":  {[]RefundNews{refundAt(1, "b", ""), refundAt(1, "a", ""), refundAt(0, "succeeded", "")}, refundAt(1, "b", "")},
		"an old event after a newer list": {[]RefundNews{refundAt(7, "succeeded", ""), refundAt(2, "pending", ""), refundAt(3, "pending", "")}, refundAt(7, "succeeded", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range permutations(len(tc.news)) {
				var state RefundNews
				for _, i := range order {
					state = state.merge(tc.news[i])
				}
				if state != tc.want {
					t.Errorf("in the order %v: %+v", order, state)
				}
			}
		})
	}
}

func disputeAt(n int64, status string) DisputeNews {
	return DisputeNews{ID: "du_1", Payment: "pi_1", Amount: 500, Currency: "usd", Status: status, Reason: "fraudulent", OpenedAt: stripeTime(0), AsOf: stripeTime(n)}
}

// I7: whatever the order in which news of a dispute come, it ends in one state.
func TestI7DisputeNewsInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		news []DisputeNews
		want DisputeNews
	}{
		"won in its second":          {[]DisputeNews{disputeAt(0, "needs_response"), disputeAt(0, "under_review"), disputeAt(0, "won")}, disputeAt(0, "won")},
		"lost, and won after all":    {[]DisputeNews{disputeAt(0, "needs_response"), disputeAt(5, "lost"), disputeAt(9, "won")}, disputeAt(9, "won")},
		"an inquiry that comes back": {[]DisputeNews{disputeAt(0, "warning_needs_response"), disputeAt(5, "warning_closed"), disputeAt(9, "needs_response")}, disputeAt(9, "needs_response")},
		"... in one second":          {[]DisputeNews{disputeAt(5, "warning_closed"), disputeAt(5, "needs_response"), disputeAt(5, "warning_under_review")}, disputeAt(5, "needs_response")},
		"two that nobody knows":      {[]DisputeNews{disputeAt(5, "a"), disputeAt(5, "b"), disputeAt(4, "won")}, disputeAt(5, "b")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range permutations(len(tc.news)) {
				var state DisputeNews
				for _, i := range order {
					state = state.merge(tc.news[i])
				}
				if state != tc.want {
					t.Errorf("in the order %v: %+v", order, state)
				}
			}
		})
	}
}

// The order of news is total: of two that differ in anything, one is later, whichever way round they are asked.
func TestNewsAreInTotalOrder(t *testing.T) {
	t.Parallel()
	word := func(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }
	refunds := rapid.Custom(func(t *rapid.T) RefundNews {
		return RefundNews{ID: "re_1", Payment: "pi_1", Currency: "usd", AsOf: stripeTime(rapid.Int64Range(0, 2).Draw(t, "as of")),
			Amount: rapid.Int64Range(1, 2).Draw(t, "amount"), Status: word("pending", "requires_action", "succeeded", "failed", "canceled", "x", "y").Draw(t, "status"),
			Reason: word("", "duplicate").Draw(t, "reason"), FailureReason: word("", "declined").Draw(t, "failure")}
	})
	disputes := rapid.Custom(func(t *rapid.T) DisputeNews {
		return DisputeNews{ID: "du_1", Payment: "pi_1", AsOf: stripeTime(rapid.Int64Range(0, 2).Draw(t, "as of")), OpenedAt: stripeTime(rapid.Int64Range(0, 1).Draw(t, "opened")),
			DueBy: stripeTime(rapid.Int64Range(0, 1).Draw(t, "due")), Amount: rapid.Int64Range(0, 1).Draw(t, "amount"), Currency: word("usd", "eur").Draw(t, "currency"),
			Status: word("needs_response", "under_review", "won", "lost", "x", "y").Draw(t, "status"), Reason: word("fraudulent", "general").Draw(t, "reason")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := refunds.Draw(t, "a"), refunds.Draw(t, "b"), refunds.Draw(t, "c")
		if a.compare(b) != -b.compare(a) || (a.compare(b) == 0) != (a == b) {
			t.Fatalf("%+v and %+v: %d and %d", a, b, a.compare(b), b.compare(a))
		}
		if a.merge(b).merge(c) != c.merge(b).merge(a) {
			t.Fatalf("%+v, %+v, %+v: the order matters", a, b, c)
		}
		x, y, z := disputes.Draw(t, "x"), disputes.Draw(t, "y"), disputes.Draw(t, "z")
		if x.compare(y) != -y.compare(x) || (x.compare(y) == 0) != (x == y) {
			t.Fatalf("%+v and %+v: %d and %d", x, y, x.compare(y), y.compare(x))
		}
		if x.merge(y).merge(z) != z.merge(y).merge(x) {
			t.Fatalf("%+v, %+v, %+v: the order matters", x, y, z)
		}
	})
}

// I3: a lost job is found as long as no reading has begun after the event that wanted one.
func TestReadingsOfRefundsAreOnRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	id := f.create(t, request())
	f.settle(t, f.begin(t, id, Send), paid)
	want := func() {
		t.Helper()
		if err := outbox.InTx(t.Context(), f.pool, "test", func(tx pgx.Tx) error { return f.readRefunds(t.Context(), tx, id) }); err != nil {
			t.Fatal(err)
		}
		if _, err := f.pool.Exec(t.Context(), `DELETE FROM river_job`); err != nil {
			t.Fatal(err)
		}
	}
	swept := func() int {
		t.Helper()
		if _, err := f.box.Sweep(t.Context(), f.Service); err != nil {
			t.Fatal(err)
		}
		return f.count(t, `SELECT count(*) FROM river_job WHERE kind = 'refunds_read' AND args ->> 'charge_id' = $1`, id.String())
	}
	begun := func() time.Time {
		t.Helper()
		p, err := f.Payments(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return p.Now
	}
	read := func(since time.Time) {
		t.Helper()
		if err := f.RefundsRead(t.Context(), id, since); err != nil {
			t.Fatal(err)
		}
	}
	if n := swept(); n != 0 {
		t.Errorf("%d jobs for what nobody wants", n)
	}
	want()
	early := begun()
	want() // by another event, while that reading goes on
	read(early)
	if n := swept(); n != 1 {
		t.Errorf("%d jobs after a reading that began too early", n)
	}
	if n := swept(); n != 1 {
		t.Errorf("%d jobs after a second sweep", n)
	}
	want()
	read(begun())
	if n := swept(); n != 0 {
		t.Errorf("%d jobs after the reading", n)
	}
}
