package outbox_test

import (
	"testing"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.WaitTogether()
	pgtest.Main(m)
}
