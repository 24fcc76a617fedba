package bench

func (r *Report) plot() []byte { return nil }
