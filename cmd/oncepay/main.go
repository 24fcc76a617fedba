// Command oncepay accepts charges over HTTP and moves their money at Stripe exactly once.
//
// Each subcommand is one file: the API and the workers, which run as separate processes against one PostgreSQL; the
// tools of their operator; and dev, which runs all of it on one machine. Settings are flags with environment twins.
//
// Exit status: 0 done; 1 something failed; 2 a setting or argument is missing or makes no sense, said in one line.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line as a whole.
type commands struct {
	LogLevel  slog.Level `env:"ONCEPAY_LOG_LEVEL" default:"info" help:"What is logged: debug, info, warn or error."`
	LogFormat string     `env:"ONCEPAY_LOG_FORMAT" enum:"json,text" default:"json" help:"How it is logged, to stderr: json or text."`

	Dev       devCommand       `cmd:"" help:"Run everything on this machine, to try it: PostgreSQL, simulators, API and worker."`
	API       apiCommand       `cmd:"" name:"api" help:"Run the HTTP API."`
	Worker    workerCommand    `cmd:"" help:"Run the workers, which call Stripe and SendGrid."`
	Migrate   migrateCommand   `cmd:"" help:"Bring the database's schema up to date."`
	Sandbox   sandboxCommand   `cmd:"" help:"Run simulators of Stripe and SendGrid."`
	Keys      keysCommand      `cmd:"" help:"Create, list and revoke API tokens."`
	Charge    chargeCommand    `cmd:"" help:"Create a charge, or get one, over the API."`
	Inventory inventoryCommand `cmd:"" help:"Set and list what there is in stock."`
	Outbox    outboxCommand    `cmd:"" help:"List what waits, or give it live jobs again."`
	Review    reviewCommand    `cmd:"" help:"List, show and settle what needs a person."`
	Reconcile reconcileCommand `cmd:"" help:"Declare that the database was restored from a snapshot or a dump."`
	Bench     benchCommand     `cmd:"" help:"Measure what this machine can do, on a PostgreSQL of its own."`
	BenchNoop benchNoopCommand `cmd:"" hidden:"" help:"What bench compares the worker with."`
	Webhooks  webhooksCommand  `cmd:"" help:"List, show and retry what Stripe and SendGrid have told."`
}

// usageError is a setting that makes no sense. The process ends with status 2.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	var cli commands
	parser, err := kong.New(&cli, kong.Name("oncepay"), kong.UsageOnError(),
		kong.Description("Charges over HTTP, through Stripe, once each."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "oncepay:", err)
		return 1
	}
	if err := dropEmptyTwins(parser.Model); err != nil {
		fmt.Fprintln(os.Stderr, "oncepay:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oncepay:", oneLine(withTwins(err, flagsOf(err))))
		return 2
	}
	log := newLog(cli)
	slog.SetDefault(log)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(log)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "oncepay:", strings.TrimPrefix(oneLine(withTwins(err, command.Flags())), "oncepay: "))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// oneLine puts a text of several lines, such as the addresses at which a database was looked for, into one, each part once.
func oneLine(text string) string {
	var line strings.Builder
	seen := map[string]bool{}
	for part := range strings.Lines(text) {
		part = strings.TrimSpace(part)
		if part == "" || seen[part] {
			continue
		}
		seen[part] = true
		switch {
		case line.Len() == 0:
		case strings.HasSuffix(line.String(), ":"):
			line.WriteByte(' ')
		default:
			line.WriteString("; ")
		}
		line.WriteString(part)
	}
	return line.String()
}

func newLog(cli commands) *slog.Logger {
	options := &slog.HandlerOptions{Level: cli.LogLevel}
	if cli.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
