package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

func TestMain(m *testing.M) { schedtest.Main(m) }
