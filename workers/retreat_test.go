package workers

import (
	"sync/atomic"
	"testing"

	"github.com/oncepay/oncepay/charges"
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
