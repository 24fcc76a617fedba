package workers

import "github.com/riverqueue/river"

// Clocks sets the times of a River client as [Start] sets them, so that another one can be compared with ours.
func Clocks(c *river.Config) {
	c.JobTimeout, c.RescueStuckJobsAfter = jobTimeout, rescueAfter
	c.FetchCooldown, c.FetchPollInterval = fetchCooldown, fetchPoll
}
