package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// Validate names all settings that are missing before anybody looks at one of them. An empty text is missing, too.
func (c *commands) Validate(command *kong.Context) error {
	var missing []string
	for _, flag := range command.Flags() {
		empty := flag.Target.Kind() == reflect.String && flag.Target.String() == ""
		if flag.Required && (empty || !flag.Set) {
			missing = append(missing, "--"+flag.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// dropEmptyTwins makes an empty environment variable count as one that is not set: files that hand variables on often
// leave it so.
func dropEmptyTwins(app *kong.Application) error {
	for _, flag := range allFlags(app) {
		for _, name := range flag.Envs {
			if os.Getenv(name) != "" {
				continue
			}
			if err := os.Unsetenv(name); err != nil {
				return fmt.Errorf("unset %s: %w", name, err)
			}
		}
	}
	return nil
}

var flagInText = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// withTwins writes the environment twin behind each of the flags that the error names.
func withTwins(err error, flags []*kong.Flag) string {
	twins := map[string]string{}
	for _, flag := range flags {
		if len(flag.Envs) > 0 {
			twins["--"+flag.Name] = flag.Envs[0]
		}
	}
	text := err.Error()
	return flagInText.ReplaceAllStringFunc(text, func(name string) string {
		if twin := twins[name]; twin != "" && !strings.Contains(text, twin) {
			return name + " (" + twin + ")"
		}
		return name
	})
}

// flagsOf returns the flags of the command whose line could not be read.
func flagsOf(err error) []*kong.Flag {
	parse := (*kong.ParseError)(nil)
	if !errors.As(err, &parse) || parse.Context == nil {
		return nil
	}
	return parse.Context.Flags()
}

func allFlags(app *kong.Application) []*kong.Flag {
	all := app.Flags
	for _, node := range app.Leaves(false) {
		all = append(all, node.Flags...)
	}
	return all
}

// hostPort is where to listen.
type hostPort string

// UnmarshalText refuses what no listener could be opened on.
func (h *hostPort) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fmt.Errorf("must be HOST:PORT, such as 127.0.0.1:8080")
	}
	*h = hostPort(text)
	return nil
}
