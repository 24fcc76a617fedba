package charges_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncepay/oncepay/charges"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	const v4, v7 = "8e03978e-40d5-43dd-bc93-6894a57f9324", "0196f3a8-6c1e-7d4a-9b3e-2f1c5d7e8a90"
	tests := []struct {
		name   string
		values []string
		want   string
		err    error
	}{
		{"version 4", []string{v4}, v4, nil},
		{"version 7", []string{v7}, v7, nil},
		{"upper case", []string{strings.ToUpper(v4)}, v4, nil},
		{"quoted", []string{`"` + v4 + `"`}, v4, nil},
		{"quoted upper case", []string{`"` + strings.ToUpper(v7) + `"`}, v7, nil},
		{"spaces around", []string{" \t" + v4 + " "}, v4, nil},
		{"absent", nil, "", charges.ErrKeyMissing},
		{"empty", []string{""}, "", charges.ErrKeyMissing},
		{"blank", []string{" \t "}, "", charges.ErrKeyMissing},
		{"quoted empty", []string{`""`}, "", charges.ErrKeyMissing},
		{"quoted blank", []string{`"  "`}, "", charges.ErrKeyMissing},
		{"two headers", []string{v4, v7}, "", charges.ErrKeyInvalid},
		{"the same header twice", []string{v4, v4}, "", charges.ErrKeyInvalid},
		{"two in one header", []string{v4 + ", " + v4}, "", charges.ErrKeyInvalid},
		{"number", []string{"12345"}, "", charges.ErrKeyInvalid},
		{"timestamp", []string{"2030-01-31T12:00:00Z"}, "", charges.ErrKeyInvalid},
		{"SHA-256", []string{strings.Repeat("a1", 32)}, "", charges.ErrKeyInvalid},
		{"36 characters that are no UUID", []string{"order-1234-order-1234-order-1234-ord"}, "", charges.ErrKeyInvalid},
		{"36 characters without hyphens", []string{strings.ReplaceAll(v4, "-", "0")}, "", charges.ErrKeyInvalid},
		{"urn", []string{"urn:uuid:" + v4}, "", charges.ErrKeyInvalid},
		{"braces", []string{"{" + v4 + "}"}, "", charges.ErrKeyInvalid},
		{"without hyphens", []string{strings.ReplaceAll(v4, "-", "")}, "", charges.ErrKeyInvalid},
		{"one quote", []string{`"` + v4}, "", charges.ErrKeyInvalid},
		{"quoted with parameter", []string{`"` + v4 + `";a=1`}, "", charges.ErrKeyInvalid},
		{"space inside quotes", []string{`" ` + v4 + `"`}, "", charges.ErrKeyInvalid},
		{"nil", []string{"00000000-0000-0000-0000-000000000000"}, "", charges.ErrKeyInvalid},
		{"max", []string{"ffffffff-ffff-ffff-ffff-ffffffffffff"}, "", charges.ErrKeyInvalid},
		{"version 1", []string{"c232ab00-9414-11ec-b3c8-9f6bdeced846"}, "", charges.ErrKeyInvalid},
		{"version 5", []string{"2ed6657d-e927-568b-95e1-2665a8aea6a2"}, "", charges.ErrKeyInvalid},
		{"version 8", []string{"2489e9ad-2ee2-8e00-8ec9-32d5f69181c0"}, "", charges.ErrKeyInvalid},
		{"version 4 of another variant", []string{"8e03978e-40d5-43dd-cc93-6894a57f9324"}, "", charges.ErrKeyInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key, err := charges.ParseKey(tt.values)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if err == nil && key.String() != tt.want {
				t.Errorf("got %s, want %s", key, tt.want)
			}
			if errors.Is(err, charges.ErrKeyInvalid) && (strings.Contains(err.Error(), tt.values[0]) || err.Error() == charges.ErrKeyInvalid.Error()) {
				t.Errorf("the refusal echoes the key or has no reason: %v", err)
			}
		})
	}
}
