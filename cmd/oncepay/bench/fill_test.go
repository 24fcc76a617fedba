package bench

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// What is put there is as the product, its callers and the provider would have made it: ids are of their time, and half of the keys.
func TestFilledIDs(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const n = 2000
	if _, err := conn.Exec(t.Context(), newRows, pgx.QueryExecModeSimpleProtocol, n, 1); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT id, attempt, key, payment, at FROM new ORDER BY at`)
	if err != nil {
		t.Fatal(err)
	}
	ofTime := func(id uuid.UUID, at time.Time) bool {
		seconds, nanoseconds := id.Time().UnixTime()
		return id.Version() == 7 && time.Unix(seconds, nanoseconds).Sub(at).Abs() <= time.Millisecond
	}
	var id, attempt, key uuid.UUID
	var payment string
	var at time.Time
	versions, firsts, seen := map[uuid.Version]int{}, map[byte]int{}, map[any]bool{}
	_, err = pgx.ForEachRow(rows, []any{&id, &attempt, &key, &payment, &at}, func() error {
		if !ofTime(id, at) || !ofTime(attempt, at) || key.Version() == 7 && !ofTime(key, at) {
			t.Errorf("of %s: charge %s, attempt %s, key %s", at, id, attempt, key)
		}
		if !regexp.MustCompile(`^pi_[A-Z2-7]{26}$`).MatchString(payment) {
			t.Errorf("no simulator calls a payment %q", payment)
		}
		versions[key.Version()]++
		firsts[payment[len("pi_")]]++
		for _, one := range []any{id, attempt, key, payment} {
			if seen[one] {
				t.Errorf("%v is there twice", one)
			}
			seen[one] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if versions[4] != n/2 || versions[7] != n/2 {
		t.Errorf("of %d keys, by version: %v", n, versions)
	}
	if len(firsts) != 32 {
		t.Errorf("payments begin with %d letters", len(firsts))
	}
}
