package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observeShared registers what api and worker show of the transactions that several charges share, and returns what has to be told of each.
func observeShared(registry prometheus.Registerer) func(transaction string, members int, took time.Duration) {
	members := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "oncepay_shared_commit_members", Help: "Members of each transaction that is shared by those who wait, by its name; one that failed counts as well.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 9), // to 256, the most there can be
	}, []string{"transaction"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "oncepay_shared_commit_duration_seconds", Help: "Time that each of these transactions took, by its name.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
	}, []string{"transaction"})
	registry.MustRegister(members, duration)
	return func(transaction string, n int, took time.Duration) {
		members.WithLabelValues(transaction).Observe(float64(n))
		duration.WithLabelValues(transaction).Observe(took.Seconds())
	}
}
