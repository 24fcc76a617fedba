package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rewrite replaces members of a JSON object by their dotted paths, and its api_version, where it has one, by version.
// The last member of a path may be new, those before it must be objects.
func rewrite(payload json.RawMessage, changes map[string]any, version string) (json.RawMessage, error) {
	if len(changes) == 0 && version == "" {
		return payload, nil
	}
	var event map[string]any
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // so that no amount or time changes its digits
	if err := decoder.Decode(&event); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		members := strings.Split(path, ".")
		object := event
		for _, name := range members[:len(members)-1] {
			inner, ok := object[name].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("set %q: the event has no object %q", path, name)
			}
			object = inner
		}
		object[members[len(members)-1]] = changes[path]
	}
	if _, has := event["api_version"]; has && version != "" {
		event["api_version"] = version
	}
	changed, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	return changed, nil
}
