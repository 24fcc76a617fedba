package main

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// gate holds up every transaction that accepts a charge, at a place that the test chooses.
type gate struct {
	t    *testing.T
	d    *deployment
	held *pgxpool.Conn
}

// The places. The job is the last row that is written; a deferred trigger fires when COMMIT has arrived.
const (
	beforeCommit = "CREATE TRIGGER gate BEFORE INSERT ON river_job FOR EACH ROW"
	duringCommit = "CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON river_job DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
)

// The function waits by sleeping, since a wait for a lock would end with lock_timeout.
const gateSQL = `
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.kind = 'charge_send' THEN
		WHILE NOT pg_try_advisory_xact_lock_shared(7) LOOP PERFORM pg_sleep(0.02); END LOOP;
	END IF;
	RETURN NEW;
END $$;`

// closeGate holds up what comes from now on. PostgreSQL gives up on a statement after 15 s.
func (d *deployment) closeGate(place string) *gate {
	d.t.Helper()
	held, err := d.pool.Acquire(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	g := &gate{t: d.t, d: d, held: held}
	d.t.Cleanup(g.open)
	for _, sql := range []string{gateSQL, place + " EXECUTE FUNCTION gate()", "SELECT pg_advisory_lock(7)"} {
		if _, err := held.Exec(d.t.Context(), sql); err != nil {
			d.t.Fatalf("close gate: %v", err)
		}
	}
	return g
}

// awaitHeld waits until a transaction stands before the gate.
func (g *gate) awaitHeld() {
	g.t.Helper()
	await(g.t, patience, "a transaction is held up", func() error {
		if g.d.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'oncepay-api'
			AND state = 'active' AND wait_event = 'PgSleep'`) == 0 {
			return errors.New("none")
		}
		return nil
	})
}

// open lets all of them go on.
func (g *gate) open() {
	if g.held == nil {
		return
	}
	_ = g.held.Conn().Close(context.Background()) // the lock goes with its session
	g.held.Release()
	g.held = nil
}
