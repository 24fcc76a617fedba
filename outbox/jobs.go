package outbox

import (
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// The queues. Receipts and upkeep have queues of their own, so that neither waits behind payments, and what has waited long has one beside
// that of new charges, so that those do not wait behind it. What looks after the providers runs while the others are paused.
const (
	QueueCharges  = "charges"
	QueueBacklog  = "backlog"
	QueueReceipts = "receipts"
	QueueUpkeep   = "upkeep"
	QueueProbe    = "probe"
)

// maxAttempts is River's largest: the ages of our own rows decide when to stop, not a counter of River's.
const maxAttempts = 32767

// argsVersion is in every job, so that a later release can tell what an earlier one wrote.
const argsVersion = 1

// Version tells which release's form a job's arguments have. One that this release cannot read is 0: the charge's id is all that is needed of
// them, and a job that could not be read at all would be live, and never run.
type Version int

// UnmarshalJSON never fails.
func (v *Version) UnmarshalJSON(raw []byte) error {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		n = 0
	}
	*v = Version(n)
	return nil
}

// SendCharge asks for one charge to be taken as far towards a final state as its attempts allow.
type SendCharge struct {
	ChargeID uuid.UUID `json:"charge_id"`
	Version  Version   `json:"v"`
}

// Kind names the job in River's table.
func (SendCharge) Kind() string { return string(KindCharge) }

// InsertOpts puts the job on [QueueCharges].
func (SendCharge) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueCharges, MaxAttempts: maxAttempts}
}

// FollowPayment asks for the payments of one charge to be read again at Stripe, and canceled there where that is due.
type FollowPayment struct {
	ChargeID uuid.UUID `json:"charge_id"`
	Version  Version   `json:"v"`
}

// Kind names the job in River's table.
func (FollowPayment) Kind() string { return string(KindFollow) }

// InsertOpts puts the job on [QueueBacklog].
func (FollowPayment) InsertOpts() river.InsertOpts { return asking }

// ReadRefunds asks for the refunds and disputes of one charge's payments to be listed at Stripe.
type ReadRefunds struct {
	ChargeID uuid.UUID `json:"charge_id"`
	Version  Version   `json:"v"`
}

// Kind names the job in River's table.
func (ReadRefunds) Kind() string { return string(KindRefunds) }

// InsertOpts puts the job on [QueueBacklog].
func (ReadRefunds) InsertOpts() river.InsertOpts { return asking }

// asking lets charges that wait to be sent go before questions about those that were.
var asking = river.InsertOpts{Queue: QueueBacklog, MaxAttempts: maxAttempts, Priority: 3}

// SendReceipt asks for the receipt of one charge to be mailed, if it is still due. One that was claimed before may have been mailed: what becomes
// of it is decided when the job runs.
type SendReceipt struct {
	ChargeID uuid.UUID `json:"charge_id"`
	Version  Version   `json:"v"`
}

// Kind names the job in River's table.
func (SendReceipt) Kind() string { return string(KindReceipt) }

// InsertOpts puts the job on [QueueReceipts].
func (SendReceipt) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueReceipts, MaxAttempts: maxAttempts}
}

// ExpireKeys removes stored answers whose time is over.
type ExpireKeys struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (ExpireKeys) Kind() string { return "keys_expire" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (ExpireKeys) InsertOpts() river.InsertOpts { return upkeep }

// Sweep gives a live job to everything that waits without one.
type Sweep struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (Sweep) Kind() string { return "outbox_sweep" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (Sweep) InsertOpts() river.InsertOpts { return upkeep }

// ApplyEvents applies what providers have told and could not be applied at once.
type ApplyEvents struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (ApplyEvents) Kind() string { return "webhook_apply" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (ApplyEvents) InsertOpts() river.InsertOpts { return upkeep }

// RemoveEvents removes what providers have told long ago.
type RemoveEvents struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (RemoveEvents) Kind() string { return "webhook_remove" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (RemoveEvents) InsertOpts() river.InsertOpts { return upkeep }

// RemoveAttempts removes what was sent to Stripe long ago for charges that are final.
type RemoveAttempts struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (RemoveAttempts) Kind() string { return "attempts_remove" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (RemoveAttempts) InsertOpts() river.InsertOpts { return upkeep }

// ReadLost asks for what a restored database has forgotten to be read at Stripe.
type ReadLost struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (ReadLost) Kind() string { return "lost_read" }

// InsertOpts puts the job on [QueueUpkeep]: behind a backlog, callers would be left in doubt for as long as that takes. It is periodic: a run that fails is
// followed by the next one.
func (ReadLost) InsertOpts() river.InsertOpts { return upkeep }

// ClearBacklog moves charges that have waited long out of the way of new ones.
type ClearBacklog struct {
	Version Version `json:"v"`
}

// Kind names the job in River's table.
func (ClearBacklog) Kind() string { return "backlog_clear" }

// InsertOpts puts the job on [QueueUpkeep]. It is periodic: a run that fails is followed by the next one.
func (ClearBacklog) InsertOpts() river.InsertOpts { return upkeep }

// ProbeProviders looks after providers that are in an outage, and after the queues that wait for them.
type ProbeProviders struct {
	Version Version `json:"v"`
}

// ProbeEvery is the period of [ProbeProviders].
const ProbeEvery = 5 * time.Second

// Kind names the job in River's table.
func (ProbeProviders) Kind() string { return "provider_probe" }

// InsertOpts puts the job on [QueueProbe]. It is unique within its period only: a worker that was killed in the middle of one must not keep
// the next from running until it is rescued.
func (ProbeProviders) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueProbe, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByPeriod: ProbeEvery}}
}

// upkeep lets a periodic job that takes longer than its period have no second one beside it.
var upkeep = river.InsertOpts{Queue: QueueUpkeep, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}}}
