package main

import (
	"fmt"
	"os"
	"os/user"
)

// operator is whoever does what is written down for good.
type operator struct {
	Who string `env:"ONCEPAY_OPERATOR" help:"Who does it, for the audit row. Default: the user of this machine."`
}

func (o operator) who() string {
	if o.Who != "" {
		return "operator:" + o.Who
	}
	if u, err := user.Current(); err == nil {
		return "operator:" + u.Username
	}
	return "operator:uid-" + fmt.Sprint(os.Getuid())
}
