package bench

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Figures of commits that a crash could lose are worth nothing: no session is opened where there could be such.
func TestOnlyDurableServersAreMeasured(t *testing.T) {
	t.Parallel()
	check := func(url string) error {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		return assertDurable(t.Context(), conn)
	}
	refused := func(url, because string) {
		t.Helper()
		if err := check(url); err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("want an error that says %q, got %v", because, err)
		}
	}
	refused(pgtest.URL(t), "is off") // servers for tests are not durable

	_, url := pgtest.Own(t)
	if err := check(url); err != nil {
		t.Errorf("a durable server is refused: %v", err)
	}
	refused(url+"&synchronous_commit=off", "synchronous_commit is off")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, other := range []string{"DATABASE postgres", "ROLE oncepay"} {
		if _, err := conn.Exec(t.Context(), "ALTER "+other+" SET synchronous_commit = off"); err != nil {
			t.Fatal(err)
		}
		if err := assertDurable(t.Context(), conn); err == nil || !strings.Contains(err.Error(), "settings of its own") {
			t.Errorf("%s has a setting of its own, and the check says %v", other, err)
		}
		if _, err := conn.Exec(t.Context(), "ALTER "+other+" RESET synchronous_commit"); err != nil {
			t.Fatal(err)
		}
	}
}
