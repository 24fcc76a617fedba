package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// bench is one run.
type bench struct {
	Options
	dir        string
	syncs      time.Duration // what the disk takes to keep a page
	server     *pgtest.Server
	postmaster int // pid; 0: unknown
	admin      *pgxpool.Pool
	pools      []*pgxpool.Pool
	databases  int // made so far
	running    []*process
	started    int
	fail       context.CancelCauseFunc // ends the run with an error
	report     Report
}

// Run measures, and writes the report to Out. It returns when everything that it started has ended, also when ctx ends.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	pgtest.IgnoreEnvironment()
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	b := &bench{Options: o, report: newReport(o)}
	if b.dir, err = makeDataDir(o.DataDir); err != nil {
		return err
	}
	told := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.fail = cancel
	defer func() {
		if told.Err() != nil {
			err = errors.New("told to stop before it was done")
		}
		err = errors.Join(err, b.end())
	}()

	if err := b.startServer(ctx); err != nil {
		return err
	}
	go func() {
		select {
		case <-b.server.Done():
			cancel(b.server.Err())
		case <-ctx.Done():
		}
	}()
	b.report.DiskSync = float64(b.syncs) / float64(time.Millisecond)
	b.report.writeHead(o.Table)
	for _, section := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"accept", b.accept}, {"endtoend", b.endToEnd}, {"growth", b.growth}, {"drain", b.drain},
	} {
		if cost := b.wants("cost") && slices.Contains([]string{"accept", "endtoend"}, section.name); !cost && !b.wants(section.name) {
			continue
		}
		b.say("\n%s", titles[section.name])
		if err := section.run(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause // and what failed because of it is no news
			}
			return fmt.Errorf("%s: %w", section.name, err)
		}
		b.report.summarise()
		b.report.writeSection(o.Table, section.name)
	}
	b.report.summarise()
	b.report.writeCosts(o.Table)
	return b.report.write(o.Out, o.Table)
}

// makeDataDir makes the directory of everything that the run needs, which other users may enter: as root, PostgreSQL is run by another.
func makeDataDir(given string) (string, error) {
	if given == "" {
		dir, err := os.MkdirTemp("", "oncepay-bench-*")
		return dir, errors.Join(err, os.Chmod(dir, 0o755))
	}
	dir, err := filepath.Abs(given)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("--data-dir must not exist yet: %w", err)
	}
	return dir, nil
}

// end stops what runs, those that need others first, and removes the data.
func (b *bench) end() error {
	var errs []error
	for _, p := range slices.Backward(b.running) {
		errs = append(errs, p.stop())
	}
	for _, pool := range b.pools {
		pool.Close()
	}
	if b.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		// The data may be elsewhere, if PostgreSQL's user cannot reach our directory.
		errs = append(errs, b.server.Stop(ctx), os.RemoveAll(b.server.Dir()))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// say ends the run if nobody listens any more.
func (b *bench) say(format string, args ...any) {
	if _, err := fmt.Fprintf(b.Table, format+"\n", args...); err != nil {
		b.fail(err)
	}
}

// add keeps a sample and says that it is there.
func (b *bench) add(s Sample) {
	b.report.Samples = append(b.report.Samples, s)
	what := s.Variant
	if s.Clients > 0 {
		what += fmt.Sprintf(", %d clients", s.Clients)
	}
	if there := s.there(); there != "" {
		what += ", " + there
	}
	b.say("  round %d  %-44s %8.0f/s", s.Round, what, s.PerSecond)
}

// usedBy measures how many CPUs those named, and PostgreSQL, use until the result is called.
func (b *bench) usedBy(pids map[string]int) func() map[string]float64 {
	read := func() map[string]time.Duration {
		used := map[string]time.Duration{}
		for name, pid := range pids {
			if cpu := cpuOf(pid); cpu > 0 {
				used[name] = cpu
			}
		}
		if b.postmaster > 0 {
			used["postgres"] = familyCPU(b.postmaster)
		}
		return used
	}
	before, began := read(), time.Now()
	return func() map[string]float64 {
		took, shares := time.Since(began), map[string]float64{}
		for name, cpu := range read() {
			shares[name] = (cpu - before[name]).Seconds() / took.Seconds()
		}
		return shares
	}
}
