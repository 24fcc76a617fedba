package workers

import (
	"testing"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// onMail is a fault for mails that are sent, times over.
func onMail(f sandbox.Fault, times int) sandbox.Fault {
	f.Method, f.Path, f.Times = "POST", "/v3/mail/send", times
	return f
}

// I5: whatever happens to its mail, a receipt is sent at most once, and the charge stays paid.
func TestReceipts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault sandbox.Fault
		times int
		want  charges.ReceiptStatus
		mails int
	}{
		{"accepted, answer lost", sandbox.Fault{Kind: sandbox.DropAfter}, sandbox.Forever, charges.ReceiptUnknown, 1},
		{"lost on the way", sandbox.Fault{Kind: sandbox.DropBefore}, sandbox.Forever, charges.ReceiptUnknown, 0},
		{"internal error", sandbox.Fault{Kind: sandbox.Status, Status: 500}, sandbox.Forever, charges.ReceiptUnknown, 0},
		{"refused", sandbox.Fault{Kind: sandbox.Status, Status: 400}, sandbox.Forever, charges.ReceiptFailed, 0},
		{"too large", sandbox.Fault{Kind: sandbox.Status, Status: 413}, sandbox.Forever, charges.ReceiptFailed, 0},
		{"too many, then accepted", sandbox.Fault{Kind: sandbox.Status, Status: 429, RetryAfter: 1}, 1, charges.ReceiptSent, 1},
		{"away, then accepted", sandbox.Fault{Kind: sandbox.Status, Status: 503}, 1, charges.ReceiptSent, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			r.fail(onMail(tc.fault, tc.times))
			r.start()
			id := r.create(mailed)
			r.awaitReceipt(id, tc.want)
			r.await("the job to end", func() bool {
				return r.count(`SELECT count(*) FROM river_job WHERE kind = 'receipt_send' AND state <> 'completed'`) == 0
			})
			if n := len(r.sandbox.Ledger().Mails); n != tc.mails {
				t.Errorf("%d mails, want %d", n, tc.mails)
			}
			if c := r.get(id); c.Status != charges.Succeeded {
				t.Errorf("the charge is %s", c.Status)
			}
			r.unburned()
		})
	}
}
