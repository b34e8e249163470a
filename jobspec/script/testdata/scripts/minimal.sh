#!/bin/bash
echo "hello from $(hostname)"
