# A digest is surer than these tags: docker build --build-arg NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:…
# (docs/how-to/containers.md says how to find it).
ARG NODE_IMAGE=node:24.21.0-bookworm-slim
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json ./
COPY .ci/node .ci/node
RUN npm ci --ignore-scripts --include=dev
COPY .ci/build.mjs .ci/notices.mjs .ci/
COPY src src
COPY plugins plugins
COPY LICENSE gateway.yaml ./
ARG BOLTGATE_COMMIT
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts \
  && node .ci/notices.mjs /usr/local/LICENSE > THIRD-PARTY-NOTICES \
  # A third of what packages bring is for compilers and debuggers.
  && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.cts' -o -name '*.mts' \) -delete \
  # The packaged configuration is a trial; in the image the environment chooses the mode.
  && sed -i '/^mode: development/d' gateway.yaml && ! grep -q '^mode:' gateway.yaml \
  && mkdir /data

FROM ${BASE_IMAGE}
# A configuration that names no mode is production's: no sandbox, no embedded database, no stack traces.
ENV NODE_ENV=production BOLTGATE_MODE=production HOST=0.0.0.0 PORT=8080 BOLTGATE_DATA=/data
WORKDIR /app
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build --chown=10001:10001 /data /data
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/src/app/cli/boltgate.mjs src/app/cli/boltgate.mjs
COPY --from=build /app/package.json /app/gateway.yaml /app/LICENSE /app/THIRD-PARTY-NOTICES ./
USER 10001:10001
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0; const ask = scheme => fetch(scheme + '://127.0.0.1:' + (process.env.PORT || 8080) + '/ready'); ask('http').catch(() => ask('https')).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# A smaller young generation than Node's keeps 24 MB; one of 4 has requests that wait for a database outlive it.
ENTRYPOINT ["node", "--disable-sigusr1", "--max-semi-space-size=8", "src/app/cli/boltgate.mjs"]
CMD ["start"]
