#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: ccache.sh CCACHE COMPILER ARGUMENT...
# Compiles through ccache. A precompiled header contains absolute paths. FILE.sum beside it, a hash of its
# preprocessed text, identifies it for ccache, so that checkouts in different folders share objects. The path
# of the header's source becomes relative to the build folder, which is where ninja compiles.
case " $* " in
  *" c++-header "*) ;;
  *)
    for argument; do
      shift
      case $argument in
        "$PWD"/*/cmake_pch.hxx) argument=${argument#"$PWD"/} ;;
      esac
      set -- "$@" "$argument"
    done
    exec "$@"
    ;;
esac
shift
"$@" || exit
for argument; do
  shift
  [ "$previous" != -o ] || output=$argument
  [ "$argument" != -emit-pch ] || argument=-w
  set -- "$@" "$argument"
  previous=$argument
done
"$@" -E -P -o - | sha256sum >"$output.sum"
