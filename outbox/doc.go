// Package outbox is the one door into River, and the one place that commits.
//
// A charge and the job that will send it are written in one transaction: [InTx] runs it, and
// [Outbox.Enqueue] puts the job into it. What River then does with the job (fetch, retry, rescue) is
// River's business; that a job exists for everything that waits is ours. [Outbox.Sweep] gives a live
// job to whatever waits without one, and [Outbox.Replay] does the same on an operator's word, with a
// dry run, counts and an audit row. Neither trusts River's rows: those are cleaned away by age, so
// the question "does this wait?" is put to a [Source], which the charges package implements.
//
// What waits while a commit is in flight shares the next one: [Together] decides who goes along and takes apart what fails, and [InTxEach]
// lets each member tell its story as if it were alone, while what they ask for travels together.
//
// Each provider has a row that says whether it may be called and how fast: an outage and its trials ([Outbox.ProviderFailed],
// [Outbox.StartTrial], [Outbox.ProviderSucceeded]), an operator's pause ([Outbox.PauseProvider]), and a token bucket ([Outbox.Lease]). The
// provider's queues are paused and run in the transaction that changes the row, and [Outbox.Reconcile] sees to it that they agree. What has
// waited through an outage, or for more than 30 s, is moved from the queue of new charges to that of the backlog.
//
// Jobs carry an id and a version and nothing else. Everything that a worker needs is read again, under
// the row's lock, when it runs; so a job that runs twice, late, or in an older release does no harm.
package outbox
