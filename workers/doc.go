// Package workers takes charges from accepted to settled: it runs River's jobs, and is the only part that calls Stripe
// and SendGrid.
//
// A charge's job asks [charges.Service.Begin] what may be done. Where that is to send, the attempt is already on
// record; the worker makes the one call, lets [Decide] say what its answer means, and writes that down. Where it is to
// look, it reads Stripe's list of payments around the open attempts, or waits for whoever is reading it for others. Where it is to wait, the job is snoozed, which costs
// none of River's attempts; nor does an outage, a rate limit or a broken secret key.
//
// [Probe] asks Stripe each minute who we are, in which mode, and what time it is there. While it has no good answer,
// nothing is sent and no attempt is written. It is this process's own view; how a provider is for all of them is in its row
// (see package outbox). health.go judges the evidence: a read of the account that fails, five sends in a row without an answer, a refused
// key. Then the queues are paused for all, and providersWorker, on a queue that is never paused, lets them run again as a trial when
// it is time. A process that alone cannot call takes no jobs meanwhile; see retreat.go.
//
// [Pace] takes calls out of the bucket that all workers share, in small leases. Jobs of the backlog's queue have a quarter of it, those of
// new charges the rest, and each what the other leaves.
//
// A receipt's job claims the receipt, sends the mail and settles the claim. What is in doubt stays visibly unknown, until evidence or a person settles it,
// or it is sent again where that was asked for.
//
// River's rows are not trusted: its errors are cleaned and bounded, kinds of other releases are left to those, and a sweep gives a job to whatever waits without one.
package workers
