package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oncepay/oncepay/cmd/oncepay/bench"
)

type benchCommand struct {
	Only          []string      `placeholder:"SECTION" help:"Measure these alone: accept, endtoend, growth, drain, cost. Default: all."`
	Rounds        int           `default:"5" help:"Rounds of each variant; variants take turns."`
	RoundDuration time.Duration `default:"5s" help:"How long a round of accept takes."`
	Clients       []int         `default:"1,16,64,256" help:"Numbers of clients that post at once."`
	PgbenchTries  []int         `name:"pgbench-clients" default:"8,16,32,64" help:"Numbers of clients among which pgbench's best is looked for."`

	Charges         int           `default:"10000" help:"Charges that wait at the beginning of a round of endtoend."`
	Concurrency     int           `default:"200" help:"Charges that the worker handles at once, and no-op jobs that are compared."`
	Conns           int           `name:"database-conns" default:"20" help:"Most database connections of each process."`
	ProviderLatency time.Duration `default:"0s" help:"Added to each call of a provider."`

	Growth        []int64 `default:"0,1000000" help:"Charges that are there already: 10000000 takes ten minutes more, and some 40 GB of disk."`
	GrowthClients int     `default:"64" help:"Clients that post at once to a database that has grown."`

	Drain     int       `default:"50000" help:"Charges that wait behind the outage."`
	DrainRate perSecond `default:"200/s" placeholder:"N/s" help:"Calls to Stripe that are allowed while they are worked off."`
	DrainNew  perSecond `default:"10/s" placeholder:"N/s" help:"New charges that come meanwhile."`

	DataDir string `placeholder:"DIR" help:"Where PostgreSQL's data is while this runs; must not exist yet, and is removed. Default: a new one among the temporary files."`
	Out     string `default:"bench-out" placeholder:"DIR" help:"Where bench.json, bench.svg and bench.txt are written."`
}

func (c *benchCommand) options() bench.Options {
	return bench.Options{
		Only: c.Only, Rounds: c.Rounds, RoundDuration: c.RoundDuration, Clients: c.Clients, PgbenchTries: c.PgbenchTries,
		Charges: c.Charges, Concurrency: c.Concurrency, Conns: c.Conns, ProviderLatency: c.ProviderLatency,
		Growth: c.Growth, GrowthClients: c.GrowthClients, Drain: c.Drain, DrainRate: float64(c.DrainRate), DrainNew: float64(c.DrainNew),
		DataDir: c.DataDir, Out: c.Out, Version: version(), Table: os.Stdout,
	}
}

// Validate refuses what cannot be measured.
func (c *benchCommand) Validate() error { return c.options().Validate() }

// Run measures until it is done or told to stop.
func (c *benchCommand) Run(ctx context.Context) error {
	ctx, cancel := withParent(ctx)
	defer cancel()
	signal.Ignore(syscall.SIGPIPE) // whoever reads the table may go; the data must not stay behind
	return bench.Run(ctx, c.options())
}

// benchNoopCommand is a process that bench compares the worker with.
type benchNoopCommand struct {
	DatabaseURL string `env:"DATABASE_URL" required:"" placeholder:"URL" help:"Of bench's own database."`
	Conns       int    `name:"database-conns" default:"20" help:"Most database connections."`
	Concurrency int    `default:"200" help:"Jobs worked at once."`
}

// Run works no-op jobs until it is told to stop.
func (c *benchNoopCommand) Run(ctx context.Context) error {
	return bench.WorkNoops(ctx, c.DatabaseURL, c.Conns, c.Concurrency)
}
