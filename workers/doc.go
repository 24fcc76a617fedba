// Package workers takes charges from accepted to settled: it runs River's jobs, and is the only part that calls Stripe
// and SendGrid.
//
// A charge's job asks [charges.Service.Begin] what may be done. Where that is to send, the attempt is already on
// record; the worker makes the one call, lets [Decide] say what its answer means, and writes that down. Where it is to
// look, it reads Stripe's list of payments around the open attempts. Where it is to wait, the job is snoozed, which costs
// none of River's attempts; nor does an outage, a rate limit or a broken secret key.
//
// [Probe] asks Stripe each minute who we are, in which mode, and what time it is there. While it has no good answer,
// nothing is sent and no attempt is written.
//
// A receipt's job claims the receipt, sends the mail and settles the claim. What is in doubt stays visibly unknown, until evidence or a person settles it,
// or it is sent again where that was asked for.
//
// River's rows are not trusted: its errors are cleaned and bounded, kinds of other releases are left to those, and a sweep gives a job to whatever waits without one.
package workers
