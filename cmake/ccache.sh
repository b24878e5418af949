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
  case $previous in
    -o | -MF | -MT)
      [ "$previous" != -o ] || output=$argument
      previous=
      continue
      ;;
  esac
  previous=$argument
  case $argument in
    -o | -MD | -MF | -MT) continue ;;
    -emit-pch) argument=-w ;;
  esac
  set -- "$@" "$argument"
done
"$@" -E -P -o "$output.text" || exit
sha256sum <"$output.text" >"$output.sum"
rm "$output.text"
