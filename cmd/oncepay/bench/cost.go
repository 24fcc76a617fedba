package bench

// Cost is what 1,000 charges have cost a process.
type Cost struct {
	Process string  `json:"process"`
	Section string  `json:"section"`
	CPU     float64 `json:"cpu_seconds_per_1000"`
	Peak    int64   `json:"peak_bytes"`
}
