package sandbox_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing goes on in the background after Close.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
