package charges

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
	"github.com/oncepay/oncepay/outbox"
)

var sizeRows = flag.Int64("size.rows", 100_000, "how many charges TestPlansAtSize has before it")

// TestPlansAtSize has PostgreSQL explain every statement of every method of [Service] and the outbox, as it runs, on a full database: none may
// read a large table from end to end, or touch more pages than its operation's bound, which does not grow with the database. A statement that
// is new is explained as well, and a method that is new needs a line in the table.
//
// The planner has two ways with a prepared statement: a plan for its arguments, and from its sixth run on perhaps one for any. Each is enforced once.
func TestPlansAtSize(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pgtest.Fill(t.Context(), pool, *sizeRows, *sizeRows/10); err != nil {
		t.Fatal(err)
	}
	allocatedAsHeld(t, pool)
	sample := readSample(t, pool)
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		x := newExplained(t, url, mode)
		for _, op := range slices.Concat(itemOps, sizeOps) {
			t.Run(mode+"/"+op.name, func(t *testing.T) {
				x.begin(op.bound)
				op.run(t, &sized{Service: x.service, box: x.box, pool: pool, sample: sample})
				x.end(t)
			})
		}
		x.service.pool.Close() // and so tell the server what was used
	}
	allocatedAsHeld(t, pool)
	unused(t, pool)
}

// unused finds indexes of ours that no statement has used: each costs every write. Those that keep a rule are left out.
func unused(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
SELECT s.indexrelname
  FROM pg_stat_user_indexes s JOIN pg_index i USING (indexrelid)
 WHERE s.idx_scan = 0 AND NOT i.indisunique AND s.indexrelname NOT LIKE 'river%'
 ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if notExplained[name] == "" {
			t.Errorf("no statement uses the index %s", name)
		}
	}
}

// notExplained are indexes that are used by what is not run here, and by what.
var notExplained = map[string]string{
	"reading_kept": "there are few readings here, and they are read without an index",
}

// explained is a service whose statements PostgreSQL explains to us, by notices of auto_explain.
type explained struct {
	service *Service
	box     *outbox.Outbox
	large   map[string]bool // tables that nobody reads from end to end

	mu    sync.Mutex
	bound int
	seen  int
	worst int
	said  []string
}

func newExplained(t *testing.T, url, mode string) *explained {
	t.Helper()
	x := &explained{large: map[string]bool{}}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { x.notice(n.Message) }
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_level = notice; SET auto_explain.log_format = json;
			SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on; SET auto_explain.log_timing = off; SET auto_explain.log_nested_statements = on;
			SET plan_cache_mode = `+mode)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	err = pool.Ping(t.Context())
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "58P01" && os.Getenv("CI") == "" {
		t.Skip("this PostgreSQL comes without auto_explain")
	}
	if err != nil {
		t.Fatal(err)
	}
	if x.box, err = outbox.New(pool); err != nil {
		t.Fatal(err)
	}
	x.service = New(pool, x.box, Options{})
	rows, err := pool.Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relpages > 50`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 8 {
		t.Fatalf("large tables: %v, %v", tables, err)
	}
	for _, name := range tables {
		x.large[name] = true
	}
	return x
}

func (x *explained) begin(bound int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bound, x.seen, x.worst, x.said = bound, 0, 0, nil
}

func (x *explained) end(t *testing.T) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen == 0 {
		t.Error("no statement was explained")
	}
	for _, said := range x.said {
		t.Error(said)
	}
	t.Logf("%d statements, %d pages at most", x.seen, x.worst)
}

// plan is a node of a plan.
type plan struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Hit   int    `json:"Shared Hit Blocks"`
	Read  int    `json:"Shared Read Blocks"`
	Plans []plan
}

func (x *explained) notice(text string) {
	_, text, ok := strings.Cut(text, "plan:\n")
	if !ok {
		return
	}
	var explained struct {
		SQL  string `json:"Query Text"`
		Plan plan
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		x.said = append(x.said, fmt.Sprintf("%v in %s", err, text))
		return
	}
	x.seen++
	if exempt(explained.SQL) {
		return
	}
	pages := explained.Plan.Hit + explained.Plan.Read
	x.worst = max(x.worst, pages)
	switch from := x.fromEndToEnd(explained.Plan); {
	case from != "" && x.bound < batchPages:
		x.said = append(x.said, fmt.Sprintf("%s is read from end to end (%d pages):\n%s", from, pages, text))
	case pages > x.bound:
		x.said = append(x.said, fmt.Sprintf("%d pages, and at most %d are allowed:\n%s", pages, x.bound, text))
	}
}

func (x *explained) fromEndToEnd(p plan) string {
	if strings.HasSuffix(p.Type, "Seq Scan") && x.large[p.Table] {
		return p.Table
	}
	for _, child := range p.Plans {
		if from := x.fromEndToEnd(child); from != "" {
			return from
		}
	}
	return ""
}

// exempted are statements that may read as much as there is, and why.
var exempted = map[string]string{
	"LIMIT 1000000) settled": "an operator's replay says how many charges it had nothing to do for; it stops at a million",
}

func exempt(sql string) bool {
	for text := range exempted {
		if strings.Contains(sql, text) {
			return true
		}
	}
	return false
}

// sized is a service on a full database, and charges of each status in it.
type sized struct {
	*Service
	box    *outbox.Outbox
	pool   *pgxpool.Pool // explains nothing
	sample map[Status][]uuid.UUID
}

func readSample(t *testing.T, pool *pgxpool.Pool) map[Status][]uuid.UUID {
	t.Helper()
	sample := map[Status][]uuid.UUID{}
	rows, err := pool.Query(t.Context(), `
SELECT status, id FROM (SELECT status, id, row_number() OVER (PARTITION BY status ORDER BY id DESC) AS n, row_number() OVER (PARTITION BY status ORDER BY id) AS oldest FROM charge) c WHERE n <= 40 OR oldest <= 5 ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	var status Status
	var id uuid.UUID
	if _, err = pgx.ForEachRow(rows, []any{&status, &id}, func() error {
		sample[status] = append(sample[status], id)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return sample
}

// pick returns a charge that is in the status, each once.
func (s *sized) pick(t *testing.T, status Status) uuid.UUID {
	t.Helper()
	ids := s.sample[status]
	if len(ids) == 0 {
		t.Fatalf("no charge is %s", status)
	}
	s.sample[status] = ids[1:]
	return ids[0]
}

// pickOldest is pick for one that is not new.
func (s *sized) pickOldest(t *testing.T, status Status) uuid.UUID {
	t.Helper()
	ids := s.sample[status]
	if len(ids) == 0 {
		t.Fatalf("no charge is %s", status)
	}
	s.sample[status] = ids[:len(ids)-1]
	return ids[len(ids)-1]
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
