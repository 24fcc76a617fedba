package workers

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// cutter stands between a worker and PostgreSQL and takes the database away once: at the COMMIT of the first transaction with a certain
// statement in it, either just before the server gets it or after the server has done it. Then nobody is let in for a while.
type cutter struct {
	statement []byte
	after     bool
	away      time.Duration

	mu    sync.Mutex
	until time.Time // away until then
	cuts  int
}

// cut returns a pool on r's database that leads through the cutter.
func (r *rig) cut(c *cutter) *pgxpool.Pool {
	r.t.Helper()
	u, err := url.Parse(r.pool.Config().ConnString())
	if err != nil {
		r.t.Fatal(err)
	}
	target := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	pool, err := pgxpool.New(r.t.Context(), u.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		pool.Close()
		_ = listener.Close()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			c.mu.Lock()
			away := time.Now().Before(c.until)
			c.mu.Unlock()
			if err != nil || away {
				_ = client.Close()
				continue
			}
			go c.forward(client, server)
		}
	}()
	return pool
}

func (c *cutter) forward(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	var lost sync.Mutex // held once the answer to COMMIT is to be lost
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || !lost.TryLock() {
				_ = client.Close()
				return
			}
			lost.Unlock()
			_, _ = client.Write(buffer[:n]) // a client that has gone is noticed below
		}
	}()
	buffer, seen := make([]byte, 64<<10), false
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		seen = seen || bytes.Contains(buffer[:n], c.statement)
		if seen && bytes.Contains(buffer[:n], []byte("commit\x00")) && c.fires() {
			if c.after {
				lost.Lock()
				_, _ = server.Write(buffer[:n])
				<-answered
			}
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (c *cutter) fires() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuts++; c.cuts > 1 {
		return false
	}
	c.until = time.Now().Add(c.away)
	return true
}

// I5: a worker whose database goes away around a claim's COMMIT goes on with that claim, and one that cannot write down at once that the
// mail was accepted does so when the database is back: one mail, and the receipt is sent.
func TestReceiptsWhileTheDatabaseIsCut(t *testing.T) {
	t.Parallel()
	const claiming, settling = "claim_id = claim.id", "doubts = doubts +"
	for _, tc := range []struct {
		name string
		cut  *cutter
	}{
		{"the claim was committed, its answer lost", &cutter{statement: []byte(claiming), after: true}},
		{"the claim was not committed", &cutter{statement: []byte(claiming)}},
		{"the outcome was committed, its answer lost", &cutter{statement: []byte(settling), after: true}},
		{"the outcome was not committed, and the database is away for a while", &cutter{statement: []byte(settling), away: 2 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, charges.Options{})
			id := r.create(mailed)
			r.exec(`INSERT INTO receipt (charge_id, recipient, status) VALUES ($1, 'buyer@example.com', 'pending')`, id)
			pool := r.cut(tc.cut)
			box, err := outbox.New(pool)
			if err != nil {
				t.Fatal(err)
			}
			w := r.mailWorker(NewMetrics(prometheus.NewRegistry()))
			w.charges = charges.New(pool, box, charges.Options{})
			if err := w.Work(t.Context(), receiptJob(id)); err != nil {
				t.Error(err)
			}
			if got, n := r.get(id).Receipt.Status, len(r.sandbox.Ledger().Mails); got != charges.ReceiptSent || n != 1 {
				t.Errorf("the receipt is %s, %d mails", got, n)
			}
			if n := r.count(`SELECT count(*) FROM receipt WHERE message_id IS NOT NULL AND doubts = 0`); n != 1 {
				t.Error("what SendGrid said is not on record")
			}
			if tc.cut.cuts == 0 {
				t.Error("nothing was cut")
			}
		})
	}
}
