package main

import (
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/requirements"
)

// criu returns a program that saves containers, or skips the test: `make criu` fetches one. Without
// CAP_SYS_RESOURCE it can only save what runs as root.
func (n *node) criu(t testing.TB) container.Criu {
	t.Helper()
	path := os.Getenv("ROTA_TEST_CRIU")
	if _, err := os.Stat("../../bin/criu"); path == "" && err == nil {
		path = "../../bin/criu"
	}
	path, version, err := requirements.FindCriu(t.Context(), path)
	if err != nil {
		t.Skipf("%v; `make criu` fetches one for tests", err)
	}
	if n.asRoot = !hasCapability(t, unix.CAP_SYS_RESOURCE); n.asRoot {
		check(t, os.Chown(n.shared, 0, 0)) // this root has no capabilities
	}
	return container.Criu{Path: path, Version: version}
}

func hasCapability(t testing.TB, number int) bool {
	var data [2]unix.CapUserData
	check(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]))
	return data[number/32].Effective&(1<<(number%32)) != 0
}

func (n *node) saves(t *testing.T) container.Criu { return n.criu(t) }

// connects returns a script that has a connection, which CRIU does not save.
func (n *node) connects() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(n.t, err)
	n.t.Cleanup(func() { _ = l.Close() })
	return fmt.Sprintf(`#!/bin/bash
trap 'exit 85' TERM
exec 5<>/dev/tcp/127.0.0.1/%d
sleep 1000 & echo ready; wait`, l.Addr().(*net.TCPAddr).Port)
}
