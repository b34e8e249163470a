#!/bin/sh
echo ${array.index} of $ROTA_ARRAY_COUNT
