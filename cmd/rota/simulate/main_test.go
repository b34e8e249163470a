package simulate

import (
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
)

func TestMain(m *testing.M) { rotatest.Main(m, Commands) }
