package charges_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/oncepay/oncepay/charges"
)

// The schema is made from the field tags, so that a slip in one shows only here.
func TestRequestSchema(t *testing.T) {
	t.Parallel()
	schema := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer).Schema(reflect.TypeFor[charges.Request](), false, "Request")
	if want := []string{"amount", "currency", "payment_method"}; !slices.Equal(schema.Required, want) {
		t.Errorf("required: got %v, want %v", schema.Required, want)
	}
	if schema.AdditionalProperties != false {
		t.Errorf("additional properties: got %v, want false", schema.AdditionalProperties)
	}
	for name, property := range schema.Properties {
		if property.Description == "" {
			t.Errorf("%s has no description", name)
		}
		if property.Nullable {
			t.Errorf("%s is nullable", name)
		}
	}
	if n := len(schema.Properties); n != reflect.TypeFor[charges.Request]().NumField() {
		t.Errorf("got %d properties", n)
	}
	if got := *schema.Properties["statement_descriptor_suffix"].MaxLength; got != 22 {
		t.Errorf("suffix: got maxLength %d", got)
	}
}
