# SPDX-License-Identifier: MIT
# `make help` lists the goals. Each installs what it needs and is missing.
.DEFAULT_GOAL := help
.PHONY: help demo package test test-tsan test-avx2 test-haswell test-arm64 test-tokenizer-parts test-tokenizers bench
.PHONY: test-suites test-ort bench-ort wheel-ort wheel bench-python check-python check-docs test-python-peers docs-python check-cuda check-rocm docs-gpu
.PHONY: test-python-backend test-generated test-page mutants mutants-verify
.PHONY: qdq-models test-decoders test-formats bench-tokenizers bench-llm bench-formats bench-models bench-cases bench-readme fuzz random-programs docs format lint test-gpu-host

FUZZ_SECONDS ?= 600
FUZZERS ?=
PROGRAM_SECONDS ?= 600
TEXTS ?= 200000

help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 24

demo: ## build the program, ask a small language model and read a digit from an image
	@scripts/demo.sh

package: ## build a Debian package of the program, its libraries and headers
	@scripts/setup.sh demo package
	@scripts/build.sh package
	@cd build/package && cpack -G DEB >../log/package.log && ls "$$PWD"/lathe_*.deb

wheel: ## build the Python package: build/wheelhouse/lathe-*.whl
	@scripts/wheel.sh

wheel-ort: ## build the execution provider's package: build/wheelhouse/onnxruntime_ep_lathe-*.whl
	@scripts/setup.sh test package
	@scripts/build.sh release liblathe_ort
	@scripts/venv.sh venv-wheel scripts/requirements-wheel.txt
	@rm -rf build/dist-ort build/wheelhouse/onnxruntime_ep_lathe-*.whl
	@python3 scripts/wheel_ort.py build/release/lib/liblathe_ort.so build/dist-ort
	@PATH="$$PWD/build/venv-wheel/bin:$$PATH" scripts/progress.sh "adding the libraries it needs" \
	  build/log/auditwheel-ort.log build/venv-wheel/bin/python -m auditwheel repair \
	  --zip-compression-level 9 --wheel-dir build/wheelhouse build/dist-ort/*.whl
	@ls -l "$$PWD"/build/wheelhouse/onnxruntime_ep_lathe-*.whl

test: ## build release and dev, run all checks and tests
	@scripts/test.sh

test-tsan: ## run the tests of what has threads under ThreadSanitizer
	@scripts/setup.sh test
	@scripts/build.sh tsan base_tests runtime_tests programs_tests decoders_tests llm_tests
	@ctest --test-dir build/tsan --output-on-failure -R '^(base|runtime|programs|decoders|llm)$$' \
	  --no-tests=error

test-page: ## try the page of explain --html in a headless Chromium, which it installs
	@scripts/setup.sh test page
	@scripts/venv.sh venv scripts/requirements-test.txt
	@scripts/build.sh release lathe
	@TEST_PROGRAM=build/release/bin/lathe build/venv/bin/python tests/cli/explain_test.py

mutants-verify: ## plant faults in kernels, packing, passes and generated code, which verify must find
	@scripts/setup.sh test
	@scripts/venv.sh venv scripts/requirements-test.txt
	@scripts/build.sh release lathe
	@build/venv/bin/python tests/mutants/verified.py

mutants: ## plant faults of order, memory, state and generated code, which tests must find
	@scripts/setup.sh test
	@scripts/build.sh release codegen_tests runtime_tests decoders_tests passes_tests gpu_tests
	@python3 tests/mutants/run.py

test-gpu-host: ## run ONNX's backend suite, decoders of the zoo and graphs by GPU kernels on the host driver (long)
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release lathe decoder_probe gpu_tests
	@TEST_EVERY_CALL=1 TEST_TARGETS=gpu:host TEST_JOBS=$$(nproc) ctest --test-dir build/release --output-on-failure --timeout 14400 --no-tests=error \
	  -R '^(gpu|gpu_decoding_test|import_onnx_backend_test|decoders_zoo_test)$$'
	@TEST_PROGRAM=build/release/bin/lathe build/venv/bin/python tests/gpu/graphs_check.py

test-ort: ## run every decoder of the zoo and ONNX's backend suite on the execution provider
	@scripts/setup.sh test
	@scripts/venv.sh venv-ort tests/ort_plugin/requirements.txt
	@scripts/build.sh release liblathe_ort ort_backend
	@for release in oldest 1.24 1.28; do \
	  scripts/venv.sh venv-ort-$$release tests/ort_plugin/requirements-$$release.txt || exit 1; done
	@for host in venv-ort venv-ort-oldest venv-ort-1.24 venv-ort-1.28; do for check in sessions contexts compiled_files random \
	  bad_inputs; do \
	  LATHE_ORT_LIBRARY=build/release/lib/liblathe_ort.so build/$$host/bin/python \
	    tests/ort_plugin/$${check}_check.py || exit 1; done; done
	@build/venv-ort/bin/python tests/ort_plugin/zoo_check.py build/release/lib/liblathe_ort.so
	@mkdir -p build/backend && tar --zstd -xf ../shared/models/onnx-backend.tar.zst -C build/backend
	@LATHE_ORT_LIBRARY=build/release/lib/liblathe_ort.so build/venv-ort/bin/python \
	  tests/ort_plugin/backend_check.py build/backend
	@LATHE_ORT_LIBRARY=build/release/lib/liblathe_ort.so build/venv-ort/bin/python \
	  tests/ort_plugin/contexts_check.py --all
	@build/release/tests/ort_backend \
	  build/venv-ort/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.* \
	  build/release/lib/liblathe_ort.so build/backend
	@scripts/build.sh release liblathe && build/venv/bin/python tests/capi/onnx_graphs_test.py all

check-cuda: ## compare the declarations of NVIDIA's libraries with its headers, compile device code (downloads 1.6 GB)
	@scripts/setup.sh test
	@scripts/build.sh release gpu_tests
	@scripts/check_cuda.sh

check-rocm: ## compare the declarations of AMD's libraries with Debian sid's, compile device code (downloads 200 MB, root)
	@scripts/setup.sh test
	@scripts/build.sh release gpu_tests
	@scripts/check_rocm.sh

docs-gpu: ## write docs/gpu-kernels.md: registers, memory and occupancy of GPU kernels (downloads 1.6 GB)
	@scripts/setup.sh test
	@scripts/make_kernels_page.sh

test-avx2: ## run all tests as on a processor with AVX2 alone
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release
	@LATHE_CPU_ISA=avx2 ctest --test-dir build/release -j 2 --output-on-failure --no-tests=error

test-haswell: ## run all tests of the CPU kernels, every case, on an emulated processor with AVX2 alone
	@scripts/setup.sh test
	@scripts/build.sh release kernels_tests
	@scripts/haswell.sh build/release/tests/kernels_tests

test-generated: ## compare 100,000 random generated kernels with the interpreter, a part emulated with AVX2 alone
	@scripts/setup.sh test
	@scripts/build.sh release codegen_tests
	@TEST_CASES=200 build/release/tests/codegen_tests
	@TEST_CASES=10 TEST_EMULATED=1 scripts/haswell.sh build/release/tests/codegen_tests

test-suites: ## run every ONNX suite under the sanitizers
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh dev lathe
	@ALL_SUITES=1 ctest --test-dir build/dev --output-on-failure -R '^import_(conformance|onnx_backend)_test$$' --no-tests=error

test-arm64: ## cross-build for 64-bit ARM, run the op tests under qemu
	@scripts/setup.sh test arm64
	@scripts/build.sh arm64
	@# The emulator gives up in a child of fork that starts threads.
	@GTEST_FILTER=-ThreadPool.WorksInAChildOfFork ctest --test-dir build/arm64 --output-on-failure \
	  -R '^(base|tensor|ops)$$' --no-tests=error

test-tokenizer-parts: ## every character through every part of tokenizers (about 20 minutes)
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release tokenizer_probe
	@TEST_PRESET=release build/venv/bin/python tests/llm/tokenizer_parts_test.py --full

bench: ## build the benchmarks, run them beside their peers, draw kernels.svg
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release
	@for program in build/release/bench/*; do [ ! -x "$$program" ] || "$$program"; done
	@build/release/bin/bench_kernels --json >build/release/bench/kernels.json
	@build/venv/bin/python bench/kernels/plot.py build/release/bench/kernels.json \
	  build/release/bench/kernels.svg

bench-models: ## time the *.onnx files below MODELS=DIR beside ONNX Runtime and OpenVINO; OPTIONS='--threads=1 …'
	@scripts/setup.sh test
	@scripts/venv.sh venv-models bench/models/requirements.txt
	@scripts/build.sh release lathe bench_peak
	@build/venv-models/bin/python bench/models/compare.py build/release/bin/lathe \
	  $$(find "$(MODELS)" -name '*.onnx' | sort) $(OPTIONS)

qdq-models: ## write QDQ int8 files of the *.onnx files below MODELS=DIR to OUT=DIR; OPTIONS='--fill=batch=1 …'
	@scripts/setup.sh test
	@scripts/venv.sh venv-models bench/models/requirements.txt
	@build/venv-models/bin/python bench/models/quantize.py "$(OUT)" \
	  $$(find "$(MODELS)" -name '*.onnx' | sort) $(OPTIONS)

bench-ort: ## time GenAI folders of MODELS=DIR and graphs of GRAPHS=DIR on the execution provider beside ONNX Runtime's CPU EP
	@scripts/setup.sh test
	@scripts/venv.sh venv-ort tests/ort_plugin/requirements.txt
	@scripts/build.sh release liblathe_ort lathe
	@build/venv-ort/bin/python bench/ort_plugin/overhead.py build/release/lib/liblathe_ort.so
	@for folder in $$(dirname "$(MODELS)"/*/genai_config.json); do \
	  build/venv-ort/bin/python bench/ort_plugin/memory.py build/release/lib/liblathe_ort.so $$folder/model.onnx; done
	@for threads in 1 2; do build/venv-ort/bin/python bench/ort_plugin/genai.py \
	  build/release/lib/liblathe_ort.so $$(dirname "$(MODELS)"/*/genai_config.json) --threads=$$threads \
	  --lathe=build/release/bin/lathe; done
	@build/venv-ort/bin/python bench/ort_plugin/steps.py build/release/lib/liblathe_ort.so \
	  $$(dirname "$(MODELS)"/*/genai_config.json)
	@build/venv-ort/bin/python bench/ort_plugin/contexts.py build/release/lib/liblathe_ort.so \
	  $$(find "$(MODELS)" $(GRAPHS) -name '*.onnx' | sort) --sizes=kv_cache_dim:64
	@[ -z "$(GRAPHS)" ] || build/venv-ort/bin/python bench/ort_plugin/graphs.py build/release/lib/liblathe_ort.so \
	  $$(find "$(GRAPHS)" -name '*.onnx' | sort) --lathe=build/release/bin/lathe

bench-cases: ## time models with test sets below MODELS=DIR beside ONNX Runtime, on those inputs
	@scripts/setup.sh test
	@scripts/venv.sh venv-models bench/models/requirements.txt
	@scripts/build.sh release lathe
	@build/venv-models/bin/python bench/models/compare_cases.py build/release/bin/lathe "$(MODELS)"

bench-readme: ## bench-models, with the table written into README.md
	@$(MAKE) --no-print-directory bench-models MODELS="$(MODELS)" OPTIONS="--readme=README.md $(OPTIONS)"

bench-tokenizers: ## time tokenizers beside those of the packages tokenizers and tiktoken
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release bench_tokenizers
	@build/venv/bin/python bench/tokenizers/make_corpus.py build/release/corpus.bin
	@build/venv/bin/python bench/tokenizers/compare.py build/release/bench_llm/bench_tokenizers \
	  build/release/corpus.bin

check-python: ## check the types of the Python package (mypy --strict) and its stubs
	@scripts/setup.sh test
	@scripts/venv.sh venv-python scripts/requirements-python.txt
	@scripts/venv.sh
	@scripts/build.sh release _core
	@cd python && ../build/venv-python/bin/python -m mypy --strict -p lathe
	@PYTHONPATH=build/release/python build/venv/bin/python scripts/make_python_stubs.py --check

test-python-peers: ## test the Python package with PyTorch, its exporters and ONNX Runtime GenAI
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/venv.sh venv-peers scripts/requirements-python-peers.txt
	@scripts/build.sh release _core
	@build/venv-peers/bin/python tests/python/exporters.py
	@build/venv-peers/bin/python tests/python/values_test.py
	@build/venv-peers/bin/python tests/python/genai_peers.py

test-python-backend: ## run the cases of the ONNX backend suites through lathe.onnxruntime.backend
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release _core lathe
	@build/venv/bin/python tests/python/backend_cases.py build/release/bin/lathe

test-formats: ## compare checkpoints with Transformers: the zoo as folders, shards and GGUF, random models of further architectures, quantised ones, and 10^5 random blocks of each type of GGUF; with LLAMA_CPP=1 also the zoo's files with llama.cpp of Debian
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/venv.sh venv-checkpoints tests/decoders/requirements-checkpoints.txt
	@scripts/build.sh release lathe decoder_probe
	@for check in venv/checkpoints_test venv/whisper_test venv/quantised_checkpoints_test venv-checkpoints/config_defaults \
	  venv-checkpoints/random_checkpoints venv-checkpoints/random_encoders venv-checkpoints/gguf_blocks \
	  venv-checkpoints/gguf_experts; do \
	  echo "$${check#*/}"; TEST_PRESET=release TEST_PROGRAM=$$PWD/build/release/bin/lathe \
	    build/$${check%/*}/bin/python tests/decoders/$${check#*/}.py || exit 1; done
	@[ -z "$(LLAMA_CPP)" ] || bench/llm/fetch_llama_cpp.sh build/llama.cpp
	@[ -z "$(LLAMA_CPP)" ] || TEST_PROGRAM=$$PWD/build/release/bin/lathe \
	  build/venv/bin/python tests/decoders/llama_cpp.py build/llama.cpp

bench-python: ## time the Python package beside ONNX Runtime, processes and, with MODELS=DIR, the program
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release _core lathe
	@PYTHONPATH=build/release/python build/venv/bin/python bench/python/overhead.py
	@PYTHONPATH=build/release/python build/venv/bin/python bench/python/threads.py
	@[ -z "$(MODELS)" ] || PYTHONPATH=build/release/python build/venv/bin/python \
	  bench/python/interrupt.py "$(MODELS)"
	@[ -z "$(MODELS)" ] || PYTHONPATH=build/release/python build/venv/bin/python \
	  bench/python/decode.py build/release/bin/lathe "$(MODELS)"

bench-llm: ## time decoders of MODELS=DIR (genai-fp32, genai-int4, ...) beside ONNX Runtime GenAI
	@scripts/setup.sh test
	@scripts/venv.sh venv-llm bench/llm/requirements.txt
	@scripts/build.sh release bench_decoder
	@build/venv-llm/bin/python bench/llm/compare.py build/release/bin/bench_decoder "$(MODELS)"

bench-formats: ## time the forms of one model below MODELS=DIR (gguf, hf, genai-int4, ...): speeds, start, peak memory; with LLAMA_CPP=1 also llama.cpp of Debian, with SHAPES=1 also bf16 and a Llama of 1B, with ENCODER=DIR also texts by an encoder
	@scripts/setup.sh test
	@scripts/venv.sh venv-llm bench/llm/requirements.txt
	@[ -z "$(LLAMA_CPP)$(SHAPES)" ] || bench/llm/fetch_llama_cpp.sh build/llama.cpp
	@scripts/build.sh release lathe
	@build/venv-llm/bin/python bench/llm/formats.py build/release/bin/lathe "$(MODELS)"
	@[ -z "$(SHAPES)" ] || build/venv-llm/bin/python bench/llm/more_forms.py "$(MODELS)" build/models/formats build/llama.cpp/llama-quantize
	@[ -z "$(SHAPES)" ] || for folder in build/models/formats/*; do \
	  build/venv-llm/bin/python bench/llm/formats.py build/release/bin/lathe $$folder; done
	@[ -z "$(ENCODER)" ] || build/venv-llm/bin/python bench/llm/embeddings.py build/release/bin/lathe "$(ENCODER)"

test-decoders: ## the tests of decoders in full; REAL_MODELS=DIR adds the chat model
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release
	@LATHE_FULL_DECODERS=1 LATHE_REAL_MODELS="$(REAL_MODELS)" ctest --test-dir build/release -V \
	  -R '^(decoders|llm_search_test)' --no-tests=error

test-tokenizers: ## compare TEXTS (200000) generated texts for each tokenizer with the packages
	@scripts/setup.sh test
	@scripts/venv.sh
	@scripts/build.sh release encoding_probe
	@TEST_PRESET=release LATHE_TOKENIZER_TEXTS=$(TEXTS) build/venv/bin/python tests/llm/encodings_test.py

fuzz: ## run each fuzz target (or FUZZERS) for FUZZ_SECONDS (600), 10^5 random cases of each kind of CPU kernel, 10^4 random graphs, all mutations of models
	@scripts/setup.sh test
	@scripts/venv.sh
	@for target in reader import; do \
	  build/venv/bin/python -W ignore tests/fuzz/make_onnx_seeds.py build/fuzz/seeds/onnx_$$target || exit 1; done
	@scripts/build.sh fuzz $(or $(addsuffix _fuzz,$(FUZZERS)),fuzzers)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZERS)
	@scripts/build.sh release kernels_tests
	@TEST_CASES=50 build/release/tests/kernels_tests --gtest_brief=1
	@scripts/build.sh release lathe
	@MUTANTS=0 TEST_PROGRAM=build/release/bin/lathe build/venv/bin/python -W ignore tests/import/onnx_mutations_test.py
	@RANDOM_GRAPHS=10000 RANDOM_GRAPH_SEED=$$(date +%s) TEST_PROGRAM=build/release/bin/lathe \
	  build/venv/bin/python tests/import/onnx_random_test.py

random-programs: ## random programs for PROGRAM_SECONDS (600) of processor time under the sanitizers: ref, every stage, cpu
	@scripts/setup.sh test
	@scripts/build.sh dev programs_tests
	@RANDOM_PROGRAMS=1000000000 RANDOM_PROGRAM_SECONDS=$(PROGRAM_SECONDS) RANDOM_PROGRAM_SEED=$$(date +%s) \
	  build/dev/tests/programs_tests --gtest_filter='RandomPrograms.*'

docs-python: ## write docs/python-compat.md from the newest packages of the other libraries
	@scripts/setup.sh test
	@scripts/venv.sh venv-python scripts/requirements-python.txt
	@scripts/venv.sh
	@scripts/build.sh release _core
	@PYTHONPATH=build/release/python build/venv-python/bin/python scripts/make_python_compat.py

docs: ## write the pages that are made from the code
	@scripts/build.sh release lathe
	@build/release/bin/lathe ops --markdown >docs/ops.md
	@build/release/bin/lathe doctor --options-markdown >docs/options.md
	@build/release/bin/lathe doctor --formats-markdown >docs/formats.md
	@build/release/bin/lathe doctor --passes-markdown >docs/passes.md
	@scripts/venv.sh
	@build/venv/bin/python scripts/make_onnx_docs.py build/release/bin/lathe
	@for page in conformance reference_launches; do \
	  build/venv/bin/python scripts/make_$$page.py build/release/bin/lathe || [ $$? = 77 ] || exit 1; done

check-docs: ## fail if a page that `make docs` writes differs from the code or from what the suites show
	@scripts/build.sh release lathe
	@build/release/bin/lathe ops --markdown | diff docs/ops.md -
	@build/release/bin/lathe doctor --options-markdown | diff docs/options.md -
	@build/release/bin/lathe doctor --passes-markdown | diff docs/passes.md -
	@scripts/venv.sh
	@build/venv/bin/python scripts/make_onnx_docs.py build/release/bin/lathe --check
	@for page in conformance reference_launches; do \
	  build/venv/bin/python scripts/make_$$page.py build/release/bin/lathe --check || [ $$? = 77 ] || exit 1; done

format: ## format all C++ sources
	@scripts/setup.sh test
	@git ls-files '*.cpp' '*.h' ':!third_party' | xargs -r clang-format-19 -i

lint: ## run clang-tidy over the sources
	@scripts/setup.sh test develop
	@cmake --preset release -B build/lint -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	@git ls-files 'src/*.cpp' | xargs -r -P 2 -n 8 clang-tidy-19 --quiet -p build/lint
