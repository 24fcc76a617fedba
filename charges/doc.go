// Package charges is the domain: what a charge is, what may happen to it next, and the SQL that keeps it so.
//
// A request enters through [DecodeRequest], is validated at Stripe's scale, and becomes canonical bytes
// that a fingerprint covers. [Service.Create] commits the charge, the answer stored under its idempotency key, its first
// audit event and its outbox job together or not at all. A worker then asks [Service.Begin], which folds over all
// attempts ([Allow]) under the charge's row lock and, where sending is safe, commits the attempt before anything is
// sent; [Service.Settle] and [Service.Looked] write down what came of it, by compare-and-set along one transition
// table, with the event and the receipt's job in the same transaction. [Service.Unfinished] tells the
// outbox what still waits, whatever became of River's rows.
//
// What a charge sells is allocated to it when it is accepted, and follows its status from then on ([Stock]): the two never change but together.
//
// Stripe's list is read once for all charges whose payments may be in it ([Reading]), and before anything is sent because nothing is on record, what a
// restored database may have forgotten ([Restoration]).
//
// What providers tell unasked comes in through [Service.TakeStripeEvent] and [Service.TakeReceiptEvents], which store each event once
// and apply it in the same transaction, in whatever order events, answers and looks arrive.
//
// What a person must decide is told by [Service.Reviews] and [Service.Evidence], and settled by [Service.Rule] and [Service.RuleReceipt], which refuse what
// contradicts the record and let the same fold judge whether anything may be sent.
//
// Nothing here calls a provider, and nothing here commits other than through the outbox's InTx.
package charges
