package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// bare runs pgbench with the inserts of an accepted charge.
type bare struct {
	b       *bench
	program string
	script  string // path
	clients int    // with which it is best
}

// newPgbench looks for the number of clients with which pgbench is best, in a database that is not the one that is measured, which does not grow by
// that. It returns nil where there is no pgbench.
func (b *bench) newPgbench(ctx context.Context, like *database) (*bare, error) {
	program, err := findPgbench()
	if errors.Is(err, fs.ErrNotExist) {
		b.note("pgbench is not among PostgreSQL's programs here: (b) was not measured")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	statements, err := b.scripts(ctx, like)
	if err != nil {
		return nil, err
	}
	p := &bare{b: b, program: program}
	tried := &accepting{name: pgbench}
	if tried.db, err = b.database(ctx, "accept_tries"); err != nil {
		return nil, err
	}
	best := map[string]float64{}
	for _, name := range []string{allInOne, aStatementEach} { // the last is the one that is measured
		p.script = filepath.Join(b.dir, "pgbench-"+name+".sql")
		if err := os.WriteFile(p.script, []byte(statements[name]), 0o600); err != nil {
			return nil, err
		}
		for _, clients := range b.PgbenchTries {
			s, err := p.run(ctx, tried, clients, b.warmUp())
			if err != nil {
				return nil, err
			}
			b.say("  pgbench, %s, %d clients: %.0f/s", name, clients, s.PerSecond)
			if s.PerSecond > best[name] {
				best[name] = s.PerSecond
				if name == aStatementEach {
					p.clients = clients
				}
			}
		}
	}
	tried.db.pool.Close()
	if _, err := b.admin.Exec(ctx, `DROP DATABASE accept_tries`); err != nil {
		return nil, fmt.Errorf("drop the database in which pgbench was tried: %w", err)
	}
	b.note("pgbench is at its best with %d clients; its four inserts in a single statement, which no service writes, came to %.0f/s", p.clients, best[allInOne])
	return p, nil
}

// findPgbench looks beside postgres, and beside what that is a link to.
func findPgbench() (string, error) {
	dir, err := pgtest.Find()
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
		dir = filepath.Dir(target)
	}
	program := filepath.Join(dir, "pgbench")
	_, err = os.Stat(program)
	return program, err
}

// Scripts.
const (
	aStatementEach = "transaction" // BEGIN, the inserts, COMMIT: what a service does for each request
	allInOne       = "statement"   // the same in one round trip
)

// The product's ids ascend with time, which keeps its indexes small; so do these. Keys are random, as those of the variants beside it.
var newID = version7("clock_timestamp()")

// scripts write what one accepted charge writes, as one that the product has just accepted shows it.
func (b *bench) scripts(ctx context.Context, like *database) (map[string]string, error) {
	var id, key string
	var at time.Time
	if err := like.pool.QueryRow(ctx, `SELECT id::text, idempotency_key::text, created_at FROM charge ORDER BY id DESC LIMIT 1`).Scan(&id, &key, &at); err != nil {
		return nil, err
	}
	make := func(newID, newKey string) (inserts []template, err error) {
		for _, of := range []struct{ table, condition string }{
			{"charge", "id = '" + id + "'"}, {"idempotency_key", "charge_id = '" + id + "'"},
			{"charge_event", "charge_id = '" + id + "'"}, {"river_job", "args ->> 'charge_id' = '" + id + "'"},
		} {
			rows, err := like.templates(ctx, of.table, of.condition, substitutes{texts: map[string]string{id: newID, key: newKey}, from: at, now: "now()"})
			if err != nil {
				return nil, err
			}
			if len(rows) != 1 {
				return nil, fmt.Errorf("an accepted charge has %d rows of %s", len(rows), of.table)
			}
			inserts = append(inserts, rows[0])
		}
		return inserts, nil
	}
	each, err := make(":id", ":key")
	if err != nil {
		return nil, err
	}
	var transaction, statement strings.Builder
	transaction.WriteString("BEGIN;\n")
	for i, t := range each {
		if i > 0 {
			transaction.WriteString(t.insert("VALUES (%s)") + ";\n")
			continue
		}
		// A service makes both itself; here the row that has them gives them back, at no further round trip. The reference holds the key.
		t = t.with("id", newID).with("idempotency_key", "gen_random_uuid()")
		t = t.replacing("(:key)::text", "(gen_random_uuid())::text")
		transaction.WriteString(t.insert("VALUES (%s)") + "\nRETURNING id, idempotency_key AS key\n\\gset\n")
	}
	transaction.WriteString("COMMIT;\n")
	once, err := make("new.id", "new.key")
	if err != nil {
		return nil, err
	}
	statement.WriteString("WITH new AS MATERIALIZED (SELECT " + newID + " AS id, gen_random_uuid() AS key)")
	for i, t := range once {
		if i < len(once)-1 {
			fmt.Fprintf(&statement, ",\n%s AS (%s)", "w_"+t.table, t.insert("SELECT %s FROM new"))
		} else {
			statement.WriteString("\n" + t.insert("SELECT %s FROM new") + ";\n")
		}
	}
	return map[string]string{aStatementEach: transaction.String(), allInOne: statement.String()}, nil
}

var (
	transactionsLine = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	tpsLine          = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)
)

// run is one run of pgbench on a database, of whole seconds. Its transactions count as acknowledged.
func (p *bare) run(ctx context.Context, of *accepting, clients int, d time.Duration) (Sample, error) {
	u, err := url.Parse(of.db.url)
	if err != nil {
		return Sample{}, err
	}
	whole := int(math.Ceil(d.Seconds()))
	cmd := exec.CommandContext(ctx, p.program, "--no-vacuum", "--protocol=prepared", "--file="+p.script, fmt.Sprint("--client=", clients),
		fmt.Sprint("--jobs=", min(clients, runtime.NumCPU())), fmt.Sprint("--time=", whole),
		"--host="+u.Hostname(), "--port="+u.Port(), "--username="+u.User.Username(), of.db.name)
	password, _ := u.User.Password()
	cmd.Env = append(cleanEnvironment(), "PGPASSWORD="+password, "LC_ALL=C")
	cmd.SysProcAttr = processAttributes()
	used := p.b.usedBy(map[string]int{})
	runtime.LockOSThread() // see start
	out, err := cmd.CombinedOutput()
	runtime.UnlockOSThread()
	if err != nil {
		return Sample{}, fmt.Errorf("pgbench: %w\n%s", errors.Join(context.Cause(ctx), err), out)
	}
	s := Sample{CPU: used()}
	s.CPU["load"] = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / float64(whole)
	count, tps := transactionsLine.FindSubmatch(out), tpsLine.FindSubmatch(out)
	if count == nil || tps == nil || strings.Contains(string(out), "aborted") {
		return Sample{}, fmt.Errorf("pgbench said:\n%s", out)
	}
	if s.Count, err = strconv.Atoi(string(count[1])); err != nil {
		return Sample{}, err
	}
	if s.PerSecond, err = strconv.ParseFloat(string(tps[1]), 64); err != nil {
		return Sample{}, err
	}
	s.Seconds = float64(s.Count) / s.PerSecond // without the time of connecting
	of.accepts += s.Count
	return s, nil
}
