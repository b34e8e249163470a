#!/bin/bash
echo "${NOT_TOUCHED} %{also not}"
