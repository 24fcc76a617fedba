package workers

import (
	"testing"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.WaitTogether()
	pgtest.Main(m)
}
