package charges

import (
	"testing"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

// A worker goes on while a newer release's migration adds columns to the tables that it reads and writes, through sessions of its own and through a pooler.
func TestI3ColumnsAreAddedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]outbox.Pooler{"statements kept": outbox.Direct, "only described": outbox.TransactionPooler} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := outbox.Open(t.Context(), pgtest.URL(t), "columns", 3, pooler)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			box, err := outbox.New(pool)
			if err != nil {
				t.Fatal(err)
			}
			f := &fixture{Service: New(pool, box, Options{}), pool: pool, box: box, home: Account{ID: "acct_home"}}
			const n = 30
			c := f.shareAll(n)
			for _, column := range []string{"", "newer"} {
				if column != "" {
					for _, table := range []string{"charge", "attempt", "look", "payment", "receipt", "charge_event"} {
						f.exec(t, `ALTER TABLE `+table+` ADD COLUMN `+column+` text`)
					}
				}
				ids := f.createMany(t, n)
				for i, err := range c.do(t, n, func(i int) error {
					b, err := f.Begin(t.Context(), ids[i], f.here(true))
					if err == nil {
						_, err = f.Settle(t.Context(), b.Attempt, answered("succeeded", "pi_"+ids[i].String()))
					}
					return err
				}) {
					if err != nil {
						t.Errorf("%q, %d: %v", column, i, err)
					}
				}
				for i, err := range c.do(t, n, func(i int) error {
					claim, err := f.ClaimReceipt(t.Context(), ids[i])
					if err == nil {
						_, err = f.SettleReceipt(t.Context(), ids[i], claim.ID, ReceiptResult{Status: ReceiptSent, MessageID: "m"})
					}
					return err
				}) {
					if err != nil {
						t.Errorf("%q, receipt %d: %v", column, i, err)
					}
				}
			}
			if got := f.count(t, `SELECT count(*) FROM receipt WHERE status = 'sent'`); got != 2*n {
				t.Errorf("%d receipts are sent, want %d", got, 2*n)
			}
		})
	}
}
