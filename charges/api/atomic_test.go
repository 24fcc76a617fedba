package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// Each write of a create is broken in turn, and at last the commit itself.
func TestI1AllOrNothing(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]string{
		"charge":          `CREATE TRIGGER broken BEFORE INSERT ON charge FOR EACH ROW WHEN (NEW.caller = 'alice') EXECUTE FUNCTION broken()`,
		"idempotency_key": `CREATE TRIGGER broken BEFORE INSERT ON idempotency_key FOR EACH ROW WHEN (NEW.caller = 'alice') EXECUTE FUNCTION broken()`,
		"charge_event":    `CREATE TRIGGER broken BEFORE INSERT ON charge_event FOR EACH ROW WHEN (NEW.actor = 'caller:alice') EXECUTE FUNCTION broken()`,
		"river_job":       `CREATE TRIGGER broken BEFORE INSERT ON river_job FOR EACH ROW WHEN (NEW.kind = 'charge_send') EXECUTE FUNCTION broken()`,
		"commit": `CREATE CONSTRAINT TRIGGER broken AFTER INSERT ON charge DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (NEW.caller = 'alice') EXECUTE FUNCTION broken()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, nil)
			d.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hunter2'; END $$`)
			d.exec(t, trigger)
			key := newKey()
			r := d.post(t, alice, key, goodBody)
			if r.wantProblem(t, http.StatusInternalServerError, "internal"); strings.Contains(r.body, "hunter2") {
				t.Errorf("the answer tells the cause: %s", r.body)
			}
			d.wantRows(t, 0)
			d.get(t, alice, "/idempotency-keys/"+key).wantProblem(t, http.StatusNotFound, "not_found")

			table := name
			if name == "commit" {
				table = "charge"
			}
			d.exec(t, `DROP TRIGGER broken ON `+table)
			if r := d.post(t, alice, key, goodBody); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("the same key afterwards: %d %s %v", r.status, r.body, r.header)
			}
			d.wantRows(t, 1)
		})
	}
}
