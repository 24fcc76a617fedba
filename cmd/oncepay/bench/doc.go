// Package bench measures what this machine can do: `oncepay bench`.
//
// [Run] starts a PostgreSQL of its own with durable settings, and the API, the worker and the simulators as the processes that they are
// in production, and drives them. Each section compares, in interleaved rounds, so that what the machine does meanwhile hits all variants
// alike: medians and their spread are what counts, and ratios rather than rates. Callers' keys are random, the worst for a large index; growth
// compares them with those of our client library, which are in order of time.
//
//	options.go          what is measured, how long and how often
//	run.go              one section after the other, and what is made of it
//	server.go           PostgreSQL, its settings, and the proof that commits are durable
//	process.go, stack.go  the processes of the binary, and how they are set up
//	client.go, load.go  clients that each wait for an answer before they ask again
//	accept.go, endtoend.go, growth.go, drain.go, cost.go  a section each
//	pgbench.go, template.go  the same inserts without us, and rows that look like ours
//	sample.go, table.go, report.go, svg.go, plot.go  what comes out
//
// Nothing is sampled: every latency counts, every answer has to be the one that is asked for, and what was accepted has to be in
// the database, with its items.
package bench
