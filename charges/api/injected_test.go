package api_test

import (
	"net/http"
	"strconv"
	"testing"
)

// What PostgreSQL ends for the sake of others is tried again until it works; what it cannot do now is said so; nothing is half done.
func TestI1I8InjectedFaultsOnAccept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code   string
		times  int
		status int
		is     string
	}{
		"deadlock":                      {"40P01", 4, http.StatusAccepted, ""},
		"serialization":                 {"40001", 4, http.StatusAccepted, ""},
		"deadlock without end":          {"40P01", 5, http.StatusServiceUnavailable, "unavailable"},
		"a lock that is held":           {"55P03", 2, http.StatusConflict, "idempotency_key_in_use"}, // also when it is waited for apart
		"a lock that is held shortly":   {"55P03", 1, http.StatusAccepted, ""},
		"disk full":                     {"53100", 1, http.StatusServiceUnavailable, "unavailable"},
		"out of memory":                 {"53200", 1, http.StatusServiceUnavailable, "unavailable"},
		"statement timeout":             {"57014", 1, http.StatusServiceUnavailable, "unavailable"},
		"read-only":                     {"25006", 2, http.StatusServiceUnavailable, "unavailable"},
		"read-only, for one connection": {"25006", 1, http.StatusAccepted, ""},
	} {
		for _, table := range []string{"charge", "river_job"} { // the first and the last that are written
			t.Run(name+" at "+table, func(t *testing.T) {
				t.Parallel()
				d := deploy(t, nil)
				d.exec(t, `CREATE SEQUENCE faults`) // which is not rolled back
				d.exec(t, `CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$
					BEGIN
						IF nextval('faults') <= TG_ARGV[0]::int THEN RAISE 'injected' USING ERRCODE = TG_ARGV[1]; END IF;
						RETURN NEW;
					END $$`)
				d.exec(t, `CREATE TRIGGER fault BEFORE INSERT ON `+table+` FOR EACH ROW EXECUTE FUNCTION fault(`+strconv.Itoa(tc.times)+`, '`+tc.code+`')`)
				key := newKey()
				r := d.post(t, alice, key, goodBody)
				if tc.status != http.StatusAccepted {
					r.wantProblem(t, tc.status, tc.is)
					if r.header.Get("Retry-After") == "" {
						t.Error("no Retry-After")
					}
					d.wantRows(t, 0)
					r = d.post(t, alice, key, goodBody)
				}
				if r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
					t.Errorf("answered %d %s", r.status, r.body)
				}
				d.wantRows(t, 1)
			})
		}
	}
}
