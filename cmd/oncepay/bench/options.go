package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Sections are what can be measured, in the order in which it is.
var Sections = []string{"accept", "endtoend", "growth", "drain", "cost"}

// Options say what is measured. All have to be set, but for DataDir, ProviderLatency and Version.
type Options struct {
	Only          []string      // of Sections; cost is about what accept and endtoend measure, and includes them
	Rounds        int           // of each variant
	RoundDuration time.Duration // of accept
	Clients       []int         // of accept, ascending
	PgbenchTries  []int         // numbers of clients among which pgbench's best is looked for

	Charges         int           // that wait at the beginning of a round of endtoend
	Concurrency     int           // of the worker, and of the client that works no-op jobs
	Conns           int           // database connections of each process
	ProviderLatency time.Duration // added to every call of a provider

	Growth        []int64 // charges that are there already, ascending
	GrowthClients int

	Drain     int     // charges that wait behind the outage
	DrainRate float64 // calls to Stripe per second that are allowed
	DrainNew  float64 // new charges per second meanwhile

	DataDir string    // must not exist yet, and is removed at the end; default: a new one in os.TempDir
	Out     string    // directory of the report; made if it is not there
	Version string    // of oncepay, for the report
	Table   io.Writer // progress and tables
}

// Validate says what cannot be measured.
func (o Options) Validate() error {
	for _, name := range o.Only {
		if !slices.Contains(Sections, name) {
			return fmt.Errorf("--only: there is no section %q (there are %v)", name, Sections)
		}
	}
	least := func(flag string, value, least int) error {
		if value < least {
			return fmt.Errorf("--%s must be at least %d", flag, least)
		}
		return nil
	}
	errs := []error{
		least("rounds", o.Rounds, 1), least("charges", o.Charges, 1), least("concurrency", o.Concurrency, 1), least("database-conns", o.Conns, 2),
		least("growth-clients", o.GrowthClients, 1), least("drain", o.Drain, 1), least("clients", len(o.Clients), 1),
		least("pgbench-clients", len(o.PgbenchTries), 1), least("growth", len(o.Growth), 1),
	}
	for _, n := range slices.Concat(o.Clients, o.PgbenchTries) {
		if n < 1 || n > 1000 {
			errs = append(errs, errors.New("--clients and --pgbench-clients must be from 1 to 1000"))
		}
	}
	if !slices.IsSorted(o.Clients) || !slices.IsSorted(o.Growth) || o.Growth[0] < 0 {
		errs = append(errs, errors.New("--clients and --growth must ascend"))
	}
	if o.RoundDuration < 50*time.Millisecond || o.RoundDuration > 10*time.Minute {
		errs = append(errs, errors.New("--round-duration must be from 50ms to 10m"))
	}
	if o.DrainRate < 1 || o.DrainNew <= 0 || o.DrainNew > o.DrainRate/2 {
		errs = append(errs, errors.New("--drain-rate must be at least 1/s, and --drain-new above 0 and at most half of it"))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o Options) wants(section string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, section)
}
