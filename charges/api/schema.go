package api

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/oncepay/oncepay/charges"
)

const schemaPrefix = "#/components/schemas/"

// schemaNames are the names of types whose own are too short for a document, or ugly.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[charges.Request]():         "ChargeRequest",
	reflect.TypeFor[charges.KeyUse]():          "IdempotencyKey",
	reflect.TypeFor[quantityBody]():            "InventoryRequest",
	reflect.TypeFor[page[charges.Charge]]():    "ChargePage",
	reflect.TypeFor[page[charges.Event]]():     "EventPage",
	reflect.TypeFor[page[charges.Inventory]](): "InventoryPage",
}

// schemas collects the JSON schemas that a document refers to. huma makes them of Go types and their tags.
type schemas struct{ registry huma.Registry }

func newSchemas() *schemas {
	return &schemas{huma.NewMapRegistry(schemaPrefix, func(t reflect.Type, hint string) string {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, ok := schemaNames[t]; ok {
			return name
		}
		return huma.DefaultSchemaNamer(t, hint)
	})}
}

// of returns a reference to the schema of a struct type.
func (s *schemas) of(t reflect.Type) *huma.Schema { return s.registry.Schema(t, true, "") }

// problem is a problem with one of these codes.
func (s *schemas) problem(codes []string) *huma.Schema {
	enum := make([]any, len(codes))
	for i, c := range codes {
		enum[i] = c
	}
	narrowed := &huma.Schema{Properties: map[string]*huma.Schema{"code": {Enum: enum}}}
	return &huma.Schema{AllOf: []*huma.Schema{s.of(reflect.TypeFor[problem]()), narrowed}}
}

// finish says what huma does not: that a struct behind a pointer may be null, and that answers, unlike requests, may get
// members that a client does not know yet.
func (s *schemas) finish(operations []*operation) {
	requests := map[reflect.Type]bool{}
	for _, op := range operations {
		requests[op.body] = true
	}
	for name, schema := range s.registry.Map() {
		t := s.registry.TypeFromRef(schemaPrefix + name)
		if !requests[t] {
			schema.AdditionalProperties = nil
		}
		for _, field := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			property := schema.Properties[name]
			if property == nil || property.Ref == "" || field.Type.Kind() != reflect.Pointer || strings.Contains(options, "omit") {
				continue
			}
			schema.Properties[name] = &huma.Schema{
				Description: property.Description,
				AnyOf:       []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
			}
		}
	}
}
