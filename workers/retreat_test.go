package workers

import (
	"sync/atomic"
	"testing"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
	"github.com/oncepay/oncepay/workers/sandbox"
)

// I6: a process takes no jobs from the queue of a provider that it cannot call, and takes them again when it can.
func TestI6Retreat(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	var can atomic.Bool
	can.Store(true)
	queue := &retreatable{name: "elsewhere", workers: 1, can: can.Load}
	follow := &retreat{client: r.workers.client, log: r.logger(), queues: []*retreatable{queue}}
	job := func(queue string) (id int) {
		return r.count(`INSERT INTO river_job (args, kind, max_attempts, queue) VALUES ('{}', 'keys_expire', 3, $1) RETURNING id`, queue)
	}
	state := func(id int, state string) bool {
		return r.count(`SELECT count(*) FROM river_job WHERE id = $1 AND state::text = $2`, id, state) == 1
	}
	follow.follow(t.Context())
	first := job("elsewhere")
	r.await("a job while it can", func() bool { return state(first, "completed") })

	can.Store(false)
	r.await("the retreat", func() bool { follow.follow(t.Context()); return !queue.working })
	left, other := job("elsewhere"), job("upkeep")
	r.await("a job of another queue", func() bool { return state(other, "completed") })
	if !state(left, "available") {
		t.Error("a job was taken after the retreat")
	}
	can.Store(true)
	follow.follow(t.Context())
	r.await("the job that was left", func() bool { return state(left, "completed") })
	r.unburned()
}

// I3, I6: a process that could not call for a moment only, with a job in flight that outlasts it, takes jobs again.
func TestI6RetreatForAMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t, charges.Options{})
	r.start()
	var can atomic.Bool
	can.Store(true)
	follow := &retreat{client: r.workers.client, log: r.logger(), queues: []*retreatable{{name: outbox.QueueCharges, workers: 4, can: can.Load, working: true}}}
	r.fail(onCreate(sandbox.Fault{Kind: sandbox.Delay, DelayMS: 2000}, 1))
	held := r.create()
	r.await("the call in flight", func() bool { return r.count(`SELECT count(*) FROM attempt`) == 1 })
	can.Store(false)
	follow.follow(t.Context())
	can.Store(true)
	next := r.create()
	r.await("the next charge to be paid", func() bool { follow.follow(t.Context()); return r.get(next).Status == charges.Succeeded })
	if n := r.count(`SELECT count(*) FROM river_job WHERE kind = 'charge_send' AND queue = 'charges' AND args ->> 'charge_id' = $1`, next); n != 1 {
		t.Error("it had to become backlog before anybody took it")
	}
	r.awaitStatus(held, charges.Succeeded)
	r.wantPayments(held, 1)
	r.unburned()
}
